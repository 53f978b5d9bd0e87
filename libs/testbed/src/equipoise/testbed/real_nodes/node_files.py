"""The configuration of containerd, its network plugin, the kubelet and kube-proxy of one node, as texts of files."""

import json
from collections.abc import Mapping
from typing import Any

from equipoise.testbed.real_nodes.addresses import DNS_SERVICE, HUB, PODS, node_address, node_name, pod_range
from equipoise.testbed.real_nodes.certificates import ClusterCertificates

FOLDER = "/etc/kubernetes"
"""A folder in the node."""

SANDBOX_IMAGE = "localhost/pause:1"

_CONTAINERD = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%(sandbox)s"
  # Without SELinux it has no effect.
  enable_selinux = true
  # A process without CAP_SYS_RESOURCE may not lower its oom_score_adj.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = %(systemd)s
"""


def node_files(
    number: int, certificates: ClusterCertificates, api_server_port: int, kubelet: Mapping[str, Any] | None = None
) -> Mapping[str, str]:
    """The texts of the files, by their paths in the node. Documents are JSON, which is valid YAML.

    `kubelet`: settings of a KubeletConfiguration that replace the usual ones. containerd gets the same cgroup driver.
    """
    name = node_name(number)
    settings = {**_kubelet(), **(kubelet or {})}
    systemd = "true" if settings["cgroupDriver"] == "systemd" else "false"
    server = f"https://{HUB}:{api_server_port}"
    files: dict[str, Any] = {
        "/etc/hostname": name,
        "/etc/hosts": f"127.0.0.1 localhost\n{node_address(number)} {name}\n",
        "/etc/containerd/config.toml": _CONTAINERD % {"sandbox": SANDBOX_IMAGE, "systemd": systemd},
        "/etc/cni/net.d/10-bridge.conflist": _network(number),
        f"{FOLDER}/resolv.conf": "",
        f"{FOLDER}/ca.crt": certificates.ca.read_text(),
        f"{FOLDER}/kubelet.yaml": settings
        | {"tlsCertFile": f"{FOLDER}/{name}-server.crt", "tlsPrivateKeyFile": f"{FOLDER}/{name}-server.key"},
        f"{FOLDER}/kubelet.kubeconfig": kubeconfig(server, certificates, f"{name}-client"),
        f"{FOLDER}/kube-proxy.yaml": kube_proxy(name, f"{FOLDER}/kube-proxy.kubeconfig"),
        f"{FOLDER}/kube-proxy.kubeconfig": kubeconfig(server, certificates, "kube-proxy"),
    }
    for pair in (f"{name}-client", f"{name}-server", "kube-proxy"):
        files[f"{FOLDER}/{pair}.crt"] = certificates.certificate(pair).read_text()
        files[f"{FOLDER}/{pair}.key"] = certificates.key(pair).read_text()
    return {path: text if isinstance(text, str) else json.dumps(text, indent=1) for path, text in files.items()}


def kubeconfig(server: str, certificates: ClusterCertificates, pair: str, folder: str = FOLDER) -> dict[str, Any]:
    """A kubeconfig that names the files in `folder`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "testbed",
                "cluster": {"server": server, "certificate-authority": f"{folder}/{certificates.ca.name}"},
            }
        ],
        "users": [
            {
                "name": pair,
                "user": {"client-certificate": f"{folder}/{pair}.crt", "client-key": f"{folder}/{pair}.key"},
            }
        ],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": pair}}],
        "current-context": "testbed",
    }


def kube_proxy(node: str, kubeconfig_file: str, *, address: str = "0.0.0.0") -> dict[str, Any]:  # noqa: S104  in its node
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig_file},
        "mode": "nftables",
        "clusterCIDR": PODS,
        "hostnameOverride": node,
        "healthzBindAddress": f"{address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # The sysctls of conntrack cannot be set in a network namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _kubelet() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{FOLDER}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        # Needed because containerd 1.7 does not report its driver. Kubelets from 1.38 on require a runtime that does.
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{FOLDER}/resolv.conf",
        # An image that the kubelet removes cannot be pulled again: there is no registry.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "runtimeRequestTimeout": "10m",
    }


def _network(number: int) -> dict[str, Any]:
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isDefaultGateway": True,
                "hairpinMode": True,
                "ipMasq": False,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": pod_range(number)}]]},
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
