"""What the collector costs, from Prometheus and the API server to messages."""
