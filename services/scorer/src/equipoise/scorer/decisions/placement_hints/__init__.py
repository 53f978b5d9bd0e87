"""Which nodes new pods of each workload should prefer and avoid, before any of them is created.

`selection` chooses the nodes, `expected_pods` counts what the hints of other workloads will send to a node, `terms`
writes a hint.
"""
