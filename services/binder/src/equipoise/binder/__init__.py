"""Carries out evictions, within strict limits and never twice.

Hears: eviction intents (work queue); utilization and placement of nodes, the end of the collector's rounds.
Says: one outcome per intent.
Touches: pods/eviction, the ledger (a ConfigMap), Events; reads live what it decides on.
"""
