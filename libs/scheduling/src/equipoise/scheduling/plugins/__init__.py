"""The default plugins of kube-scheduler 1.37, one file each.

Sources: pkg/scheduler/framework/plugins of Kubernetes. Reasons are kube-scheduler's own texts.
"""
