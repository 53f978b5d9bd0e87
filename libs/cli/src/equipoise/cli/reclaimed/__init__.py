"""`equipoise colocation nodes`: what is idle on each node, for how long, and what of it is requested."""
