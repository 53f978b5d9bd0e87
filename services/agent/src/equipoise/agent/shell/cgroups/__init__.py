"""The cgroup files of the node and its pods: found, read and written."""
