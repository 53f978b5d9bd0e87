"""`equipoise config`: defaults, schema and validation of the configuration."""
