"""The Kubernetes API server: client, reflector, leader election."""
