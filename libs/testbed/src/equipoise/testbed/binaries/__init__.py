"""The programs of a cluster: found on this machine, or built once into a cache."""
