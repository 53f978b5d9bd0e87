#!/bin/sh
# Runs the program of a virtual machine. It is called in the network namespace of the control plane, with
#   NAME, GROUPS            of the node, and one cgroup of it per controller
#   SOURCE, DISK            the disk of the cache, and the disk of this node, which remains
# and QEMU with its arguments. Everything ends with this process.
set -eu
ip link show "$NAME" > /dev/null 2>&1 || ip tuntap add dev "$NAME" mode tap
ip link set "$NAME" master br0 up
for group in $GROUPS; do
    echo $$ > "$group/cgroup.procs"
done
[ -e "$DISK" ] || { cp --sparse=always --reflink=auto "$SOURCE" "$DISK.new" && mv "$DISK.new" "$DISK"; }
exec "$@"
