"""What the services say to one another and about the cluster. Pure: no I/O, no clock."""
