"""Preemption: which pods would have to be removed, and from which node.

Source: pkg/scheduler/framework/preemption and plugins/defaultpreemption of Kubernetes 1.37.
"""
