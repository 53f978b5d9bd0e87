"""Talks to the bus, the API server and clocks. It carries out what the decisions return."""
