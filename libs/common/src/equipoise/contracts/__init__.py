"""Messages, Kubernetes objects, load, fit and settings, which all services share. Pure: no I/O, no clock."""
