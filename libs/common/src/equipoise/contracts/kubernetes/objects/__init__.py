"""Kubernetes objects with only the fields that some decision reads, decoded directly from the API server's JSON.

Unknown fields are ignored, and absent or null ones get the default, so a newer API server works as well.
"""
