"""The number of the pods of workloads in a replay, and which of them are deleted."""
