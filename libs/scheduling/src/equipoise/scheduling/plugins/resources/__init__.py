"""Plugins about requested resources."""
