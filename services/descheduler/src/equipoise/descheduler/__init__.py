"""The descheduler proposes which pods should leave nodes with a lasting high load. It never evicts.

Subscribes to: utilization.node, utilization.workload, utilization.cycle, placement.node,
               eviction.outcome, health.binder
Watches:       nodes, pods, namespaces, disruption budgets, workloads and, if pods with volumes may move, volumes
Publishes:     eviction.intent, decision.descheduler; the leader responds to plan.preview
Writes:        its Lease
"""
