"""HTTP servers of the services: connections, TLS certificates, metrics and a health check."""
