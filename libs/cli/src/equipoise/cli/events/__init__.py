"""`equipoise events`: documentation of the messages on the bus."""
