"""The whole loop on a throwaway real cluster, watched live and measured from outside."""
