"""What changes while it is tried to empty one node after the other."""
