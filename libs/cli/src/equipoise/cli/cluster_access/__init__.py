"""How commands find, read and change what runs in a cluster."""
