"""Talks to the bus, the API server, HTTP and clocks. It asks the decisions what to do and does it."""
