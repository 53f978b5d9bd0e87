"""`equipoise pause`: stops all evictions until `equipoise resume`."""
