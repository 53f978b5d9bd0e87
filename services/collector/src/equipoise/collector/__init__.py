"""Measures what nodes, pods and workloads really use.

Hears: Prometheus; nodes, pods, ReplicaSets and Jobs (watch); placements told before it.
Says: utilization of nodes and workloads, the end of each round, placement of nodes.
Touches: its Lease.
"""
