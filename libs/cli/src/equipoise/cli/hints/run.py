"""Reads the placement hints of a namespace from the API server, and prints them."""

from collections.abc import Collection, Iterator, Mapping
from functools import partial

import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.bus.access import with_bus
from equipoise.cli.effective.reading import read_effective
from equipoise.cli.effective.running import not_known, running_configurations
from equipoise.cli.effective.text import setting_at
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.options import BusOptions, ClusterOptions, Output
from equipoise.cli.terminal import day_and_time, duration, print_result, table
from equipoise.contracts.hints.hints_object import HintsObject, remaining_validity, workload_hints
from equipoise.contracts.hints.policy import NAME
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.contracts.messages.placement import WorkloadHint
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.kubernetes.client import HINTS, find
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

MAX_NAMES = 3
"""The largest number of nodes that are named; with -o wide all are."""


class NamespaceHints(msgspec.Struct, frozen=True, kw_only=True):
    """The hints of a namespace, or of some of its workloads."""

    namespace: str
    version: str
    """The version of the object: a pod that got one of these hints names it in its annotation."""

    until: float
    expired: bool
    hints: dict[str, WorkloadHint]
    """The hints by kind and name of the workload."""


async def run_hints(name: str, bus: BusOptions, options: ClusterOptions, *, output: Output) -> None:
    """Run the command. Raises KubeError, InvalidInput, and CommandFailed if there are no such hints."""
    configure_logging(Logging(level="error"), "hints")
    namespace, workload = workload_name(name)
    clock = SystemClock()
    async with connect_kube(options.connection(), "hints", clock) as kube:
        stored = await find(kube, HINTS, NAME, namespace) or HintsObject()
        found = namespace_hints(stored, namespace, workload, kube.server_time(clock.now()))
    if not stored.keys:
        why = await _why_none(bus, options, clock)
        raise CommandFailed(f"no placement hints were written in namespace {namespace}: {why}")
    if not found.hints:
        raise CommandFailed(f"there are no placement hints for {workload} in namespace {namespace}")
    print_result(found, partial(show, wide=output == "wide", now=clock.now()), output=output)


async def _why_none(bus: BusOptions, options: ClusterOptions, clock: Clock) -> str:
    """Why there are no hints, according to the configurations of the running services if these can be reached."""
    try:
        return await with_bus(bus, options, lambda server: _why_by(server, clock))
    except (BusError, CommandFailed) as error:
        return f"`equipoise doctor` checks why (what services run with is not known: {error})"


async def _why_by(server: Nats, clock: Clock) -> str:
    return why_no_hints(await read_effective(server, clock), clock.now())


def why_no_hints(messages: Collection[EffectiveConfiguration], now: float) -> str:
    """Which service does not compute or write hints, according to the configuration that it runs with."""
    for service, does in (("scorer", "computes"), ("annotator", "writes")):
        running = running_configurations(messages, service, now)
        if not running:
            return f"the {service}, which {does} them: {not_known(service)}"
        for each in running:
            if not each.current:
                return f"{each.named}, which {does} them: {each.age_text(now)}"
            if setting_at(each.settings, "placement", "hints") is not True:
                return f"placement.hints is not true in {each.named}, which {does} them"
    return "scorer and annotator run with hints enabled: `equipoise doctor` checks why there are none"


def workload_name(name: str) -> tuple[str, str]:
    """Namespace and workload (may be empty) from NAMESPACE[/WORKLOAD]. Raises InvalidInput."""
    namespace, _, workload = name.partition("/")
    if not namespace or "/" in workload:
        raise InvalidInput(f"{name!r} is not a workload: use NAMESPACE/NAME or NAMESPACE/KIND.NAME")
    return namespace, workload


def namespace_hints(stored: HintsObject, namespace: str, workload: str, now: float) -> NamespaceHints:
    """The hints of one workload, given by its name or by kind and name. An empty `workload` selects all workloads.

    `now`: the time of the API server's clock.
    """
    return NamespaceHints(
        namespace=namespace,
        version=stored.metadata.resource_version,
        until=stored.until.timestamp() if stored.until else 0.0,
        expired=(remaining_validity(stored, now) or 0.0) <= 0,
        hints=_selected(workload_hints(stored), workload),
    )


def _selected(hints: Mapping[str, WorkloadHint], workload: str) -> dict[str, WorkloadHint]:
    return {key: hint for key, hint in hints.items() if workload in ("", key, key.partition(".")[2])}


def show(found: NamespaceHints, to: Console, *, wide: bool, now: float) -> None:
    """Print how long the hints are valid, and for each workload the nodes that its pods prefer and avoid."""
    distance = duration(abs(found.until - now))
    validity = f"expired {distance} ago: new pods get none" if found.expired else f"valid for {distance}"
    to.print(
        Text.assemble(
            (found.namespace, "bold"), f", version {found.version}, until {day_and_time(found.until)} ({validity})"
        ),
        style="yellow" if found.expired else "",
    )
    to.print()
    made = table("workload", "", "nodes>", "with their weights")
    for key, hint in found.hints.items():
        for number, (verb, weights) in enumerate(_weights(hint)):
            names = [f"{name} {weight}" for name, weight in weights]
            shown = names if wide or len(names) <= MAX_NAMES else [*names[:MAX_NAMES], "…"]
            made.add_row(key if number == 0 else "", verb, str(len(names)), ", ".join(shown))
    to.print(made)


def _weights(hint: WorkloadHint) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """The nodes to prefer and to avoid with their weights, highest weight first."""
    if hint.prefer:
        yield "prefer", [(name, weight) for name, weight in hint.weights.most_common() if weight > 0]
    if hint.avoid is not None:
        yield "avoid", [(name, hint.avoid.weight) for name in hint.avoid.hostnames]
