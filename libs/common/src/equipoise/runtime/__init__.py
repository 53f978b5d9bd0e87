"""What every service stands on: bus, API server, settings, process. The only place that does I/O for them."""
