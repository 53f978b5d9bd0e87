"""Families of random clusters: each one is about some features of kube-scheduler."""
