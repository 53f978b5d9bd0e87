"""Cgroup files, the API server, and the HTTP server of the agent."""
