"""Two questions of the owner of a cluster: how much batch work would fit, and how many nodes fewer would do."""
