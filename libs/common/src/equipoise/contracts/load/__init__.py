"""Load: usage as a share of a node, its age, its correction for pods that came and went, and daily profiles."""
