"""The I/O that services share: bus, API server, configuration, process."""
