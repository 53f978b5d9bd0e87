"""Load: usage as a share of a node, its age, its correction for pods that arrived and left, and daily profiles."""
