#!/bin/sh
# Called by mmdebstrap with the tree of a Debian: adds what starts a node in a virtual machine.
set -eu
units=$1/etc/systemd/system

mkdir -p "$1/opt/node"
cat > "$1/opt/node/prepare.sh" <<'PREPARE'
#!/bin/sh
# Takes the files of this node from the second disk, which is an archive, and configures its network.
set -eu
tar -C / -xf /dev/vdb
. /etc/kubernetes/node.env
hostname "$NAME"
modprobe -a overlay br_netfilter
until [ -e /sys/class/net/eth0 ]; do
    sleep 0.2
done
ip address replace "$ADDRESS/24" dev eth0
ip link set eth0 up
ip route replace default via "$HUB"
while read -r range address; do
    ip route replace "$range" via "$address"
done < /etc/kubernetes/routes
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables  # otherwise a Service is not reached from a pod of the same node
# A kubelet does not start with the state of another policy.
rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state
PREPARE

cat > "$units/node.service" <<'UNIT'
[Unit]
Description=Files and network of this node
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /opt/node/prepare.sh
UNIT

# One group has a quota for as long as the machine runs. Whenever the first quota is set or the last one removed, the kernel
# replaces instructions of its scheduler, and QEMU may execute half of a replaced one on another CPU: a panic in enqueue_entity.
mkdir -p "$units/system.slice.d"
cat > "$units/system.slice.d/quota.conf" <<'UNIT'
[Slice]
CPUQuota=400%
UNIT

mkdir -p "$units/containerd.service.d"
cat > "$units/containerd.service.d/node.conf" <<'UNIT'
[Unit]
Requires=node.service
After=node.service
UNIT

cat > "$units/kubelet.service" <<'UNIT'
[Unit]
Description=kubelet
Wants=containerd.service
Requires=node.service
After=containerd.service node.service
[Service]
EnvironmentFile=/etc/kubernetes/node.env
ExecStart=/opt/programs/kubelet --config /etc/kubernetes/kubelet.yaml --kubeconfig /etc/kubernetes/kubelet.kubeconfig --hostname-override ${NAME} --node-ip ${ADDRESS}
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
UNIT

cat > "$units/kube-proxy.service" <<'UNIT'
[Unit]
Description=kube-proxy
Requires=node.service
After=node.service
[Service]
EnvironmentFile=/etc/kubernetes/node.env
ExecStart=/opt/programs/kube-proxy --config /etc/kubernetes/kube-proxy.yaml
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
UNIT

cat > "$units/journal-output.service" <<'UNIT'
[Unit]
Description=Journal of the node on the second serial port
[Service]
ExecStart=/bin/sh -c 'exec journalctl --follow --output=short-monotonic --unit=node --unit=containerd --unit=kubelet --unit=kube-proxy > /dev/ttyS1'
Restart=always
[Install]
WantedBy=multi-user.target
UNIT

mkdir -p "$units/multi-user.target.wants"
for unit in containerd kubelet kube-proxy journal-output; do
    chroot "$1" systemctl enable --quiet $unit.service
done
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer getty@tty1.service serial-getty@ttyS0.service; do
    ln -sf /dev/null "$units/$unit"
done
# Without an identifier it would be the first boot, in which systemd enables all units.
echo 65717569706f6973652d746573746265 > "$1/etc/machine-id"
