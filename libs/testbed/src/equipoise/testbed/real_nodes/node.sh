#!/bin/sh
# A node as namespaces of this machine. It is called in the network namespace of the control plane, with
#   NAME, ADDRESS           of the node
#   HUB, HUB_NETWORK        address of the control plane, and the file of its network namespace
#   ROUTES                  one "range address" per line: the pods of other nodes
#   GROUPS                  one cgroup of the node per controller
#   TREE, DATA              the system of all nodes, which is not changed, and the folder of this node
#   PROGRAMS, IMAGES        the folder of kubelet and kube-proxy, and archives of images
# All of it ends with this process.
set -eu

network() {
    in_hub="nsenter --net=$HUB_NETWORK"
    $in_hub ip link delete "$NAME" 2>/dev/null || true  # of an earlier start: it outlives its namespace for a moment
    ip link add eth0 type veth peer name "$NAME" netns "$HUB_NETWORK"
    $in_hub ip link set "$NAME" master br0 up
    ip link set lo up
    ip address add "$ADDRESS/24" dev eth0
    ip link set eth0 up
    ip route add default via "$HUB"
    echo "$ROUTES" | while read -r range address; do
        [ -z "$range" ] || ip route add "$range" via "$address"
    done
    echo 1 > /proc/sys/net/ipv4/ip_forward
    # Otherwise a Service is not reached from a pod of the same node.
    [ ! -e /proc/sys/net/bridge ] || echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
}

file_systems() {
    root=$DATA/root
    mkdir -p "$root" "$DATA/work" "$DATA/containerd" "$DATA/changes/var/lib/containerd" \
        "$DATA/changes/opt/programs" "$DATA/changes/opt/images" "$DATA/changes/oldroot"
    mount -t overlay -o "lowerdir=$TREE,upperdir=$DATA/changes,workdir=$DATA/work" overlay "$root"
    mount --bind "$DATA/containerd" "$root/var/lib/containerd"  # an overlay cannot be a layer of another one
    mount --bind "$PROGRAMS" "$root/opt/programs"
    for archive in $IMAGES; do
        touch "$root/opt/images/${archive##*/}"
        mount --bind "$archive" "$root/opt/images/${archive##*/}"
    done
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    mount --make-rslave "$root/dev"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
    for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
        mkdir "$root/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "$root/sys/fs/cgroup/$controller"
    done
    # What a kubelet sets for its machine must not be set here: files instead.
    for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
        kernel/keys/root_maxbytes; do
        mkdir -p "$root/run/sysctl/${name%/*}"
        cat "/proc/sys/$name" > "$root/run/sysctl/$name"
        mount --bind "$root/run/sysctl/$name" "$root/proc/sys/$name"
    done
    cd "$root"
    pivot_root . oldroot
    cd /
    umount -l /oldroot
    mount --make-rshared /
}

# As a service manager does: a program that ends is started again.
keep_running() {
    while :; do
        "$@" || true
        sleep 1
    done >> "/var/log/$1.log" 2>&1 &
}

programs() {
    export PATH=/opt/programs:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    keep_running containerd
    until [ -S /run/containerd/containerd.sock ]; do
        sleep 0.1
    done
    for archive in /opt/images/*.tar; do
        ctr --namespace k8s.io images import "$archive"
    done
    keep_running kube-proxy --config /etc/kubernetes/kube-proxy.yaml
    keep_running kubelet --config /etc/kubernetes/kubelet.yaml --kubeconfig /etc/kubernetes/kubelet.kubeconfig \
        --hostname-override "$NAME" --node-ip "$ADDRESS"
    echo "$NAME runs"
    wait
}

if [ "${1:-}" = inside ]; then
    hostname "$NAME"
    network
    file_systems
    programs
else
    for group in $GROUPS; do
        echo $$ > "$group/cgroup.procs"
    done
    exec unshare --net --mount --pid --fork --kill-child --uts --ipc --cgroup /bin/sh "$0" inside
fi
