"""Plans and moves: what they cost, and what they reach beside those of other programs."""
