"""Proposes which pods should leave nodes whose load stays high. It never evicts.

Subscribes to: utilization of nodes and workloads, the collector's cycles; placement; outcomes; heartbeats of binders.
Publishes: eviction intents, decisions; the leader responds to `plan.preview`.
API access: watches nodes, pods, namespaces, PodDisruptionBudgets, workloads and, if configured, volumes; its Lease.
"""
