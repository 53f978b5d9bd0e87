"""The annotator writes measured load on nodes and workloads, for people and other programs.

Hears: utilization of nodes and workloads; placement, where crane's annotations are asked for.
Says: what it has written.
Touches: reads a node or a workload, PATCHes one annotation on it (and crane's when asked); its own Lease.
"""
