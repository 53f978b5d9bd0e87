"""Offers requested but idle resources to pods of the bands mid and batch, each for as long as it is expected to last.

Subscribes to: utilization of nodes and workloads, placement; its own messages of the last day, when it starts.
Publishes: what is reclaimed on each node (only the leader).
API access: PATCHes the mid and batch amounts in the status of a node; its Lease.
"""
