"""`equipoise tap`: messages of the bus, live."""
