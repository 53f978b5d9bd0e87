"""Talks to the bus, the API server, HTTP and clocks. Calls the decisions and carries them out."""
