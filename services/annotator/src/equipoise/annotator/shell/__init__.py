"""Uses the bus, the API server, HTTP and clocks: calls the decisions and carries them out."""
