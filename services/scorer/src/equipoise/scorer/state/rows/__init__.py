"""The tables of the nodes: which row a node has, and its values."""
