"""The descheduler proposes which pods should leave nodes that stay too hot. It never evicts.

Hears:   utilization.node, utilization.workload, utilization.cycle, eviction.outcome, health.binder; watches nodes,
         pods, namespaces, disruption budgets, workloads and, if they may move, volumes
Says:    eviction.intent, decision.descheduler; the leader answers plan.preview
Touches: its Lease
"""
