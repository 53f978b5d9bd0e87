"""Room for pods that wait for it: which pods wait, what they miss, and which other pods to move."""
