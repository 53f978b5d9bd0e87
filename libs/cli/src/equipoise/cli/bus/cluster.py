"""Whether a bus belongs to the cluster of the kubeconfig, as far as they can be compared."""

import asyncio
import os
from typing import Literal

import msgspec

from equipoise.cli.cluster_access.kubeconfig import ClusterName, cluster_name
from equipoise.cli.cluster_access.leases import held_leases, held_text
from equipoise.cli.options import ClusterOptions
from equipoise.runtime.bus.nats.connection import ClusterNats
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import LEASES, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import SystemClock

TIMEOUT = 5.0
"""Seconds for a request to the API server, which the command can do without."""


class BusCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of the kubeconfig, and whether the bus belongs to it."""

    name: ClusterName | None
    """None without a kubeconfig."""

    state: Literal["confirmed", "another", "unknown"]
    why: str = ""
    """The origin of the messages if the cluster is not confirmed, and why no more is known."""

    def __str__(self) -> str:
        if self.state == "confirmed":
            return f"cluster: {self.name}"
        if self.state == "another":
            return f"cluster: NOT {self.name}: {self.why}"
        return self.why


def bus_cluster(options: ClusterOptions, server: Nats) -> BusCluster:
    """The cluster of the bus, without a comparison: confirmed only for a bus that was reached through this cluster.

    Raises InvalidInput and ConfigurationError for invalid options.
    """
    connection = options.optional_connection()
    if isinstance(connection, str):
        return _without_cluster(server, connection)
    name = cluster_name(connection, os.environ)
    if isinstance(server, ClusterNats):
        return BusCluster(name=name, state="confirmed")
    why = f"messages of {server.shown_url}, not compared with the kubeconfig's cluster {name}"
    return BusCluster(name=name, state="unknown", why=why)


async def plan_cluster(options: ClusterOptions, lease_uid: str, server: Nats) -> BusCluster:
    """The cluster of the bus: confirmed if the descheduler that responded holds the Lease of the kubeconfig's cluster.

    `lease_uid`: the UID of the Lease that the descheduler holds.

    Raises InvalidInput and ConfigurationError for invalid options.
    """
    connection = options.optional_connection()
    if isinstance(connection, str):
        return _without_cluster(server, connection)
    name, url = cluster_name(connection, os.environ), server.shown_url
    if isinstance(server, ClusterNats):
        return BusCluster(name=name, state="confirmed")
    try:
        async with asyncio.timeout(TIMEOUT), connect_kube(connection, options.command, SystemClock()) as kube:
            lease = await kube.get(LEASES, DESCHEDULER_LEASE, connection.namespace)
    except (KubeError, TimeoutError) as error:
        why = f"messages of {url}; the Lease of {name} cannot be read: {str(error) or 'no response'}"
        return BusCluster(name=name, state="unknown", why=why)
    if lease.metadata.uid == lease_uid:
        return BusCluster(name=name, state="confirmed")
    why = (
        f"the descheduler at {url} holds another Lease than {connection.namespace}/{DESCHEDULER_LEASE} of that cluster"
    )
    return BusCluster(name=name, state="another", why=why)


async def leader_in_cluster(options: ClusterOptions) -> str:
    """The leader in the cluster of the kubeconfig, as a sentence; empty if there is none, or it is unknown."""
    connection = options.optional_connection()
    if isinstance(connection, str):
        return ""
    clock = SystemClock()
    try:
        async with asyncio.timeout(TIMEOUT), connect_kube(connection, options.command, clock) as kube:
            held = await held_leases(kube, connection.namespace, "descheduler", clock)
    except (KubeError, TimeoutError):
        return ""
    return (
        f"; in cluster {cluster_name(connection, os.environ)}, {held_text(held)}: use its NATS server" if held else ""
    )


def _without_cluster(server: Nats, why: str) -> BusCluster:
    why = f"messages of {server.shown_url}, not compared with a cluster ({why})"
    return BusCluster(name=None, state="unknown", why=why)
