"""Measures the usage of nodes, pods and workloads.

Subscribes to: the placements and cycles published before; heartbeats of collectors. Queries the metric source.
Publishes: utilization of nodes and workloads, the cycle at the end of each round, placement of nodes.
API access: watches nodes, pods, ReplicaSets and Jobs; reads workloads' annotations; a Lease for each shard.
"""
