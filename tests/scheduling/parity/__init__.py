"""The scheduling library against the real kube-scheduler: random clusters and pods, decision by decision."""
