"""What the agent writes, and which pods it evicts. Pure."""
