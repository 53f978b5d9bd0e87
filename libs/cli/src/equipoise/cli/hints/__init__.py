"""`equipoise nodes`: all nodes with their real load beside what their pods request."""
