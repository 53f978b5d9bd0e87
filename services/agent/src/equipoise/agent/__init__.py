"""Keeps the batch pods of one node inside what is left there: a process on every node that takes part in co-location.

It sets the cgroups of pods that ask for reclaimed resources: CPU quota, CPU weight and a memory threshold, from their
amounts. While latency-sensitive pods wait for CPU time, it limits all best-effort pods of the node. If memory or CPU
time runs out, it evicts batch pods by the API. It restores the node when it ends.

Subscribes to: nothing; it is not on the bus.
Publishes: nothing but metrics.
API access: lists and watches the pods of its node; creates evictions of batch pods, if enabled.
"""
