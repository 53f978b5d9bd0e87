"""`equipoise up`: all five services on this machine."""
