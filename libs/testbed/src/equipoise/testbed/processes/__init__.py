"""The processes of a cluster: their command lines, configuration files and ports, and the guard that starts them."""
