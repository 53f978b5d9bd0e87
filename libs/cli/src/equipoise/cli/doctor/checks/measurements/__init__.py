"""Checks of what is measured beside usage."""
