"""Carries out evictions, within strict limits and never twice.

Subscribes to: eviction intents (work queue); utilization and placement of nodes, the collector's cycles.
Publishes: one outcome per intent.
Writes: pods/eviction, the ledger (a ConfigMap), Events. What decides about a pod is read live.
"""
