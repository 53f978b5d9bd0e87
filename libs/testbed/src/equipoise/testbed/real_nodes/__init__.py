"""Nodes with a kubelet, containerd and containers, as namespaces of this machine."""
