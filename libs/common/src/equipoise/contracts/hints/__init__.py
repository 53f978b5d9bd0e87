"""Placement hints in the API server: their kind, and the admission policy that adds them to new pods.

An object of this kind has the hints of one namespace. The policy adds those of its workload to each new pod as
preferred node affinity, which any kube-scheduler honors.
"""
