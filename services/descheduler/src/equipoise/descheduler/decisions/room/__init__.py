"""Room for pods that wait for it: which pods wait, what they miss, and how disruptive moves of others are."""
