"""Pure: a trace, the cluster that it describes, its scheduler and descheduler, and the figures of its loads."""
