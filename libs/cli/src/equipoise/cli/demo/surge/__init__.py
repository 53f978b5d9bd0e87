"""The part of a demo with moves without a gap."""
