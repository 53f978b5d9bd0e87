"""Placement hints: which nodes new pods of each workload should prefer and avoid, before any of them is created.

`table` keeps the points of every workload on every node, `node_constraints` decides which nodes its pods can use,
`selection` chooses nodes from both, `expected_pods` counts what the hints of other workloads will send to a node,
`terms` writes a hint, `publication` decides which are published.
"""
