"""The bus on NATS with JetStream."""
