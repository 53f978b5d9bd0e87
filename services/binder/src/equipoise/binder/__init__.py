"""Carries out evictions, within strict limits and never twice.

Subscribes: eviction intents (work queue); utilization and placement of nodes, the collector's cycles.
Publishes: one outcome per intent.
Writes to the API: pods/eviction, the ledger (a ConfigMap), Events. Reads live what decides about a pod.
"""
