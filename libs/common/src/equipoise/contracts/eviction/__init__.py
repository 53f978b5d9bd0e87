"""Which pods may be evicted."""
