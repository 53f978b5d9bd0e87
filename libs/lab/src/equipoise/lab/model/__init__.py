"""Pure: a trace, the fleet that it describes, and how it is placed, leveled and judged."""
