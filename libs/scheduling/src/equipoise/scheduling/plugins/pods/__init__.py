"""Plugins about other pods: affinity, anti-affinity and topology spread constraints."""
