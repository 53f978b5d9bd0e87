"""How the nodes of a snapshot become those that strategies read."""
