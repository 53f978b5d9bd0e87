"""Writes measured load as annotations on nodes and workloads, for people and other programs.

Subscribes to: utilization of nodes and workloads; nodes that are being emptied; placement, if crane's annotations are
enabled; placement hints, if these are.
Publishes: the annotations that it has written.
API access: GETs a node or a workload, PATCHes one annotation of it (and crane's if enabled); PATCHes one taint of nodes
that are being emptied; its own Lease; GETs, creates and PUTs the PlacementHints of a namespace, if enabled, and GETs
the policy that adds them to pods.
"""
