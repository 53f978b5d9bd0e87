"""Scores nodes for kube-scheduler, so that pods are placed where the load is low.

Subscribes to: utilization of nodes and workloads, the collector's cycles; placement; nodes that are being emptied;
eviction intents and outcomes.
Publishes: sampled decisions, advice on placed pods, reviews of the cluster.
Serves: the HTTP extender (/prioritize, /filter); `score.explain`.
API access: none.
"""
