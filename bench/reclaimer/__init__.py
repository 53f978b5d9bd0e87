"""The reclaimer and the agent: what they cost, and how much batch work fits."""
