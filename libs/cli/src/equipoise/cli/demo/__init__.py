"""`equipoise demo`: Equipoise on a throwaway real cluster."""
