"""The descheduler and the binder in a replay."""
