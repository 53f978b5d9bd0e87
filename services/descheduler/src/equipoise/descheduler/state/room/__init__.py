"""What changes while room is made for waiting pods."""
