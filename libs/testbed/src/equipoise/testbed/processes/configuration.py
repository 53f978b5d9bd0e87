"""Configuration files of the components of a cluster, as documents. They are written as JSON, which is valid YAML."""

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]

ADMIN = "admin"
CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"
KUBELET = "kwok"
# The audit log shows which of these users made a request. All are administrators, because a throwaway cluster needs no
# isolation of its components.
USERS = (ADMIN, CONTROLLER_MANAGER, SCHEDULER, KUBELET)


@dataclass(frozen=True, kw_only=True)
class PrometheusConfiguration:
    scrape_interval: float = 1.0
    """Seconds between scrapes of every node, and between evaluations of the rules."""
    scrape_configs: Sequence[Document] = field(default_factory=tuple)
    """Further entries of `scrape_configs`."""
    rules: Sequence[Document] = field(default_factory=tuple)
    """Rule groups, as under `groups` of a rule file."""


def audit_policy() -> Document:
    """The audit policy: evictions, bindings, and what a service writes to pods, Roles and the status of nodes are
    logged with bodies, EndpointSlices also as they are after the write, other writes without. Reads, Leases and Events
    are not logged."""
    unlogged = [
        {"group": "coordination.k8s.io", "resources": ["leases"]},
        {"group": "events.k8s.io", "resources": ["events"]},
        {"group": "", "resources": ["events"]},
    ]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {
                "level": "Request",
                "verbs": ["create"],
                "resources": [{"group": "", "resources": ["pods/eviction", "pods/binding"]}],
            },
            {
                "level": "Request",
                "userGroups": ["system:serviceaccounts"],
                "resources": [{"group": "", "resources": ["nodes/status"]}],
            },
            {
                "level": "Request",
                "userGroups": ["system:serviceaccounts"],
                "verbs": ["patch", "update"],
                "resources": [
                    {"group": "", "resources": ["pods"]},
                    {"group": "rbac.authorization.k8s.io", "resources": ["roles"]},
                ],
            },
            {
                "level": "RequestResponse",
                "verbs": ["create", "update", "patch", "delete"],
                "resources": [{"group": "discovery.k8s.io", "resources": ["endpointslices"]}],
                "omitManagedFields": True,
            },
            {"level": "None", "verbs": ["get", "list", "watch"]},
            {"level": "None", "resources": unlogged},
            {"level": "None", "nonResourceURLs": ["*"]},
            {"level": "Metadata"},
        ],
    }


def token_file(token_of_user: Mapping[str, str]) -> str:
    return "".join(f'{token},{user},{user},"system:masters"\n' for user, token in token_of_user.items())


def kubeconfig(*, server: str, ca_file: str, user: str, token: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "testbed", "cluster": {"server": server, "certificate-authority": ca_file}},
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    }


def signing_key() -> str:
    """A new P-256 private key in SEC 1 form; Go derives the public half, so no cryptography is needed here."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    scalar = (secrets.randbelow(order - 1) + 1).to_bytes(32, "big")
    curve = bytes.fromhex("a00a06082a8648ce3d030107")  # the object identifier of P-256
    # Version 1, then the private key as 32 octets.
    sequence = bytes.fromhex("0201010420") + scalar + curve
    body = base64.encodebytes(bytes([0x30, len(sequence)]) + sequence).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n"


def scheduler(configuration: Document, kubeconfig_file: str) -> Document:
    """The caller's KubeSchedulerConfiguration, with the connection and the leader election of the testbed."""
    connection = {"qps": 1000, "burst": 2000, **configuration.get("clientConnection", {})}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **configuration,
        "leaderElection": {"leaderElect": False},
        "clientConnection": {**connection, "kubeconfig": kubeconfig_file},
    }


def prometheus(
    configuration: PrometheusConfiguration, *, kwok_port: int | None, rule_file: str, generation: int
) -> Document:
    """The configuration of Prometheus; without kwok, only with the scrape configurations of the caller.

    `generation` is a part of the address from which nodes are discovered. After a reload with another generation,
    Prometheus discovers new nodes at once.
    """
    interval = f"{round(configuration.scrape_interval * 1000)}ms"
    nodes = {
        "job_name": "nodes",
        "http_sd_configs": [
            {
                "url": f"http://127.0.0.1:{kwok_port}/discovery/prometheus?generation={generation}",
                # Prometheus applies updates of targets at most every 5 s.
                "refresh_interval": "7s",
            },
        ],
        # kwok serves all nodes at one address: without another label, their series would be the same.
        "relabel_configs": [
            {
                "source_labels": ["__metrics_path__"],
                "regex": "/metrics/nodes/(.+)/metrics/resource",
                "target_label": "node",
            },
            {"source_labels": ["node"], "target_label": "instance"},
        ],
    }
    return {
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "evaluation_interval": interval,
        },
        "rule_files": [rule_file] if configuration.rules else [],
        "scrape_configs": [*([nodes] if kwok_port is not None else []), *configuration.scrape_configs],
    }


def rule_file(configuration: PrometheusConfiguration) -> Document:
    return {"groups": list(configuration.rules)}
