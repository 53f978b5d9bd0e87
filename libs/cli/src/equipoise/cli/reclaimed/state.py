"""Whether a cluster has a reclaimer, and what nodes offer by it: a part of `equipoise status`."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from equipoise.cli.reclaimed.nodes import ReclaimedSummary, summary_of
from equipoise.cli.reclaimed.reading import RETENTION, read_nodes
from equipoise.cli.reclaimed.show import summary_lines
from equipoise.cli.terminal import count, duration
from equipoise.runtime.bus import BusError
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import LEASES, Kube, KubeError
from equipoise.runtime.kubernetes.leader_election import RECLAIMER_LEASE
from equipoise.runtime.process.clock import Clock

AGENTS = "agents: they do not use the bus; see `kubectl get daemonsets -A -l app.kubernetes.io/component=agent`"


class ReclaimerState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster that has, or had, a reclaimer."""

    state: Literal["on", "off", "unknown"]
    """off: it does not evaluate nodes."""

    why: str = ""
    """Why it is off or unknown."""

    summary: ReclaimedSummary | None = None
    """None: there is no evaluation of the last day, or it is unknown."""


async def has_reclaimer(kube: Kube, namespace: str) -> bool:
    """Whether one has led in this cluster. False if its Lease cannot be read."""
    try:
        await kube.get(LEASES, RECLAIMER_LEASE, namespace)
    except KubeError:
        return False
    return True


async def read_reclaimer_state(server: Nats | NatsConnection, clock: Clock) -> ReclaimerState:
    """Unknown, with the reason, if the bus cannot be read."""
    try:
        nodes = await read_nodes(server, clock)
    except BusError as error:
        return ReclaimerState(state="unknown", why=str(error))
    if not nodes:
        return ReclaimerState(state="off", why=f"no node was evaluated within the last {duration(RETENTION)}")
    summary = summary_of(nodes)
    return ReclaimerState(state=summary.state, summary=summary)


def reclaimer_lines(found: ReclaimerState, now: float) -> Iterator[str]:
    """The state and mode, then the bands, then the number of nodes that the totals do not include."""
    if found.summary is None:
        yield f"reclaimer: {found.state} ({found.why})"
    else:
        first, *others = summary_lines(found.summary, now)
        yield f"reclaimer: {found.state}, {first}"
        yield from (f"  {line}" for line in others)
        if number := len(found.summary.not_counted):
            yield f"  {count(number, 'node')} not in these totals: `equipoise colocation nodes` states why"
    yield AGENTS
