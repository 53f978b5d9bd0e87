"""The annotator writes measured load on nodes and workloads, for people and other programs.

Hears: utilization of nodes and workloads.
Says: what it has written.
Touches: PATCHes one annotation on a node or a workload; its own Lease.
"""
