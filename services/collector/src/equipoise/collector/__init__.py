"""Measures what nodes, pods and workloads really use.

Hears: Prometheus; nodes, pods, ReplicaSets and Jobs (watch); placements and rounds told before it;
heartbeats of collectors.
Says: utilization of nodes and workloads, the end of each round, placement of nodes.
Touches: a Lease for each shard.
"""
