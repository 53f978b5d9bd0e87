"""Talks to the bus, the API server and clocks, and carries out what the decisions return."""
