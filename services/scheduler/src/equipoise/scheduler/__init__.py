"""Schedules pods as kube-scheduler does, with plugins in Python, beside the cluster's own scheduler (experimental).

Subscribes to: with a policy, what the scorer receives: utilization, placement, cycles, intents and outcomes.
Publishes: nothing.
API access: watches what decides where pods run; binds pods, writes their status and Events; deletes the victims of a
preemption; its Lease.
"""
