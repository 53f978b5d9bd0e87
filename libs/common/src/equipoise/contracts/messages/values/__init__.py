"""Values that several messages contain."""
