"""The lines above an output about the settings of binders and deschedulers, and about whether evictions happen now."""

import asyncio
import os
from collections.abc import Iterator, Sequence

import msgspec

from equipoise.binder.decisions.status import LedgerStatus
from equipoise.binder.state.ledger_json import clock_time
from equipoise.cli.bus.cluster import TIMEOUT
from equipoise.cli.effective.comparison import file_lines, several_lines, shared_lines
from equipoise.cli.effective.reading import read_effective
from equipoise.cli.effective.running import RunningConfiguration, Settings, not_known, running_configurations
from equipoise.cli.effective.settings import file_settings
from equipoise.cli.effective.text import strategies_line
from equipoise.cli.effective.trust import published_moves
from equipoise.cli.options import ClusterOptions
from equipoise.cli.status.run import limits_of, read_status
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock


class InEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What is in effect, as text; the configurations themselves are in `equipoise status -o json`."""

    restriction: str = ""
    """Why evictions do not happen now, or only in part; empty if nothing restricts them, or if this is unknown."""

    lines: list[str] = []
    """The running configurations, and how replicas or the file of --config differ from each other."""


NOTHING_KNOWN = InEffect()


async def read_in_effect(server: Nats, options: ClusterOptions, clock: Clock, *, ledger: bool) -> InEffect:
    """What is in effect. The lines state what cannot be read.

    `ledger`: whether to read the ledger, because the bus and the API server are known to be of the same cluster.
    """
    try:
        messages = await read_effective(server, clock)
    except BusError as error:
        return InEffect(lines=[f"what services run with is not known: {error}"])
    now, file = clock.now(), options.configuration
    binders = running_configurations(messages, "binder", now)
    status = await _status(options, binders, clock) if ledger else None
    given = None if file is None else file_settings(file, os.environ)
    return InEffect(
        restriction=restriction(binders, status, now), lines=list(effective_lines(messages, given, str(file), now))
    )


async def _status(
    options: ClusterOptions, binders: Sequence[RunningConfiguration], clock: Clock
) -> LedgerStatus | None:
    """The status of the ledger; None if it cannot be read."""
    limits = limits_of(binders[0]) if binders else None
    try:
        connection = options.connection()
        async with asyncio.timeout(TIMEOUT), connect_kube(connection, options.command, clock) as kube:
            return await read_status(kube, connection.namespace, limits, clock)
    except (KubeError, TimeoutError):
        return None


def restriction(binders: Sequence[RunningConfiguration], status: LedgerStatus | None, now: float) -> str:
    """What restricts evictions now: a pause in the ledger, the maintenance times of the binders, or halved limits."""
    if status is not None and status.evictions in ("paused", "closed"):
        return f"{status.evictions}: {status.why or 'no reason given'}"
    reasons = {}
    for each in binders:
        limits = limits_of(each)
        reasons[each.named] = "" if limits is None else limits.maintenance.refusal_until(now)
    restrictions = [f"{why} ({named})" if len(reasons) > 1 else why for named, why in reasons.items() if why]
    if status is not None and status.halved_until is not None:
        restrictions.append(f"limits are halved until {clock_time(status.halved_until)}")
    return "; ".join(restrictions)


def effective_lines(
    messages: Sequence[EffectiveConfiguration], file: Settings | None, name: str, now: float
) -> Iterator[str]:
    """A line for each configuration of deschedulers and binders, and lines about how these and the file differ."""
    kinds = {kind: running_configurations(messages, kind, now) for kind in ("descheduler", "binder")}
    yield f"moves: {published_moves(messages, now)}"
    if not kinds["descheduler"]:
        yield f"strategies: {not_known('descheduler')}"
    yield from (f"{strategies_line(each)} ({each.age_text(now)})" for each in kinds["descheduler"])
    if not kinds["binder"]:
        yield f"limits: {not_known('binder')}"
    yield from (f"limits: of {each.named} ({each.age_text(now)})" for each in kinds["binder"])
    for running in kinds.values():
        yield from several_lines(running)
        if file is not None:
            yield from file_lines(name, file, running)
    yield from shared_lines(each for kind in ALL_SERVICES for each in running_configurations(messages, kind, now))
