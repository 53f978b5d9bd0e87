"""Plugins about the volumes of a pod."""
