"""`equipoise testbed`: throwaway clusters."""
