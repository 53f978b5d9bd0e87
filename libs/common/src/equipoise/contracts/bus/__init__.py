"""Subjects and streams of the bus, and who may publish and subscribe."""
