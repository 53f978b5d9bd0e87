"""kube-scheduler as a library: its framework, its default plugins and its preemption, on pods and nodes in memory."""
