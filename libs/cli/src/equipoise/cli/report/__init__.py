"""`equipoise report`: what the placement advice of the scorer adds up to."""
