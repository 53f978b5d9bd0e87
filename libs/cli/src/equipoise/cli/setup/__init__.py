"""`equipoise setup`: NATS streams and the eviction ledger."""
