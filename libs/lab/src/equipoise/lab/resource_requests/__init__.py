"""Requests that are proposed from the measured usage, and what they would change."""
