"""Which nodes a cluster can do without: the settings, the nodes that must stay, the answer, and what is done."""
