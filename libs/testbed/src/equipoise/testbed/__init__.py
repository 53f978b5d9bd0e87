"""A throwaway real Kubernetes cluster without Docker: built once, up in seconds, gone with its process."""
