"""Carries out evictions, within strict limits and never twice.

Subscribes to: eviction intents (work queue); outcomes; utilization and placement of nodes, the collector's cycles.
Publishes: one outcome per intent.
API access: creates pods/eviction and Events, updates the ledger (a ConfigMap); reads pods, owners and the Lease live.
"""
