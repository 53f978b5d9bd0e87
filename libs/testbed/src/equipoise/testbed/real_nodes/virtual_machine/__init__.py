"""A real node that is a virtual machine: cgroup v2, pressure and systemd, whatever the machine itself has."""
