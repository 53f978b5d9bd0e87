"""Explanations of scores, and advice on placed pods."""
