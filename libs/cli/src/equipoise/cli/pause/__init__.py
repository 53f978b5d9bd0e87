"""`equipoise pause`: no evictions until `equipoise resume`."""
