"""Whether binders evict or only dry-run, by their heartbeats, if the bus is that of the cluster."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import click
import msgspec

from equipoise.cli.bus.access import connect_problem
from equipoise.cli.bus.heartbeats import LISTEN_SECONDS, read_heartbeats
from equipoise.cli.cluster_access.leases import held_leases
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.messages.health import CONFIGURATION_LIFETIME, DRY_RUN, REAL, EffectiveConfiguration, Heartbeat
from equipoise.contracts.messages.message import converted
from equipoise.runtime.bus import BusError
from equipoise.runtime.bus.nats.connection import ClusterNats
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import Kube, KubeError
from equipoise.runtime.process.clock import Clock

_LEADERS: tuple[ServiceName, ...] = ("collector", "descheduler")


class BinderMode(msgspec.Struct, frozen=True, kw_only=True):
    """What binders do with intents that they accept."""

    mode: Literal["real", "dry run", "unknown"]
    why: str
    """The origin of the mode, or why it is unknown."""

    reported: tuple[str, ...] = ()
    """What binders on the bus report, if it is unknown whether they are of the cluster, or what they do."""


def binder_mode(
    heartbeats: Collection[Heartbeat], holders: Collection[str] | None, url: str, *, same_cluster: bool = False
) -> BinderMode:
    """The mode by the last heartbeat of each process. `holders`: the holders of the cluster's Leases; None: they may
    not be read.

    `same_cluster`: the bus was reached through the API server of the cluster.

    A leader holds its Lease: if a leader on the bus is a holder in the cluster, the bus belongs to the cluster. If
    binders differ, real evictions win.
    """
    binders = [each for each in heartbeats if each.service == "binder" and each.evictions]
    if not binders:
        return BinderMode(mode="unknown", why=f"no heartbeat of a binder at {url} within {LISTEN_SECONDS:.0f} s")
    modes = tuple(sorted({each.evictions for each in binders}))
    reports = f"{len(binders)} binder{'s' if len(binders) > 1 else ''} at {url}: {', '.join(modes)}"
    leaders = {each.id for each in heartbeats if each.leading and each.service in _LEADERS}
    if holders is None and not same_cluster:
        why = f"{reports}; not known to be of this cluster: Leases may not be read"
        return BinderMode(mode="unknown", why=why, reported=modes)
    if holders is not None and not same_cluster and leaders.isdisjoint(holders):
        found, held = (", ".join(sorted(each)) or "nobody" for each in (leaders, holders))
        why = f"{reports}; not known to be of this cluster: its Leases are held by {held}, the leader there is {found}"
        return BinderMode(mode="unknown", why=why, reported=modes)
    if REAL in modes:
        return BinderMode(mode="real", why=reports)
    if modes == (DRY_RUN,):
        return BinderMode(mode="dry run", why=reports)
    return BinderMode(mode="unknown", why=reports, reported=modes)


def as_heartbeats(messages: Iterable[EffectiveConfiguration], now: float) -> list[Heartbeat]:
    """What running processes have published of themselves lately."""
    return [
        converted(each, Heartbeat, ready=True)
        for each in messages
        if not each.stopped and now - each.at <= CONFIGURATION_LIFETIME
    ]


async def read_binder_mode(
    server: Nats,
    kube: Kube,
    namespace: str,
    clock: Clock,
    published: Sequence[EffectiveConfiguration] = (),
    *,
    listen: float = LISTEN_SECONDS,
) -> BinderMode:
    """The mode that binders have `published`, else that of heartbeats, for which it listens for `listen` seconds.

    The first heartbeat of a binder with real evictions ends the wait.
    """
    holders: set[str] | None
    same_cluster = isinstance(server, ClusterNats)
    try:
        held = [lease for service in _LEADERS for lease in await held_leases(kube, namespace, service, clock)]
        holders = {lease.spec.holder_identity for lease in held}
    except KubeError:
        holders = None
    published_before = as_heartbeats(published, clock.now())

    def mode_with(heartbeats: Iterable[Heartbeat]) -> BinderMode:
        latest = {(heartbeat.service, heartbeat.id): heartbeat for heartbeat in (*published_before, *heartbeats)}
        return binder_mode(latest.values(), holders, server.shown_url, same_cluster=same_cluster)

    at_once = mode_with(())
    # If a leader is among those that published, heartbeats would add nothing about the cluster.
    if at_once.mode != "unknown" or (
        at_once.reported and any(heartbeat.leading and heartbeat.service in _LEADERS for heartbeat in published_before)
    ):
        return at_once
    if problem := await connect_problem(server):
        return BinderMode(mode="unknown", why=problem)
    click.echo(f"waiting up to {listen:.0f} s for the heartbeats of binders …", err=True)

    try:
        heartbeats = await read_heartbeats(server, clock, lambda found: mode_with(found).mode == "real", listen=listen)
    except BusError as error:
        return BinderMode(mode="unknown", why=str(error))
    return mode_with(heartbeats)
