"""What the agent remembers from one round to the next. Pure."""
