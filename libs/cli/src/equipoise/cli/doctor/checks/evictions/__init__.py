"""Checks of what evictions need, and of what they may have left behind."""
