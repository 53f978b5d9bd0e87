"""The shared sections of the configuration and their types."""
