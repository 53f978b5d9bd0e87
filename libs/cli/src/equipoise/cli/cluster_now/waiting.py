"""The nodes whose pods wait for CPU, memory or disks, and the nodes that are only busy. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from equipoise.cli.terminal import RESOURCES, count, listed
from equipoise.contracts.configuration.settings import PressureThresholds, Thresholds
from equipoise.contracts.load.pressure import (
    CONTENDED_RESOURCES,
    RESOURCE_NAMES,
    contention,
    contention_text,
    is_throttled,
    uncontended,
    waiting_of,
)
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources

EXAMPLE = PressureThresholds(cpu=20, io=20)
"""The thresholds by which nodes are named as long as none is configured. They decide nothing."""

MAX_NAMES = 5


class LoadAndPressure(NamedTuple):
    """A node as it is judged here."""

    name: str
    load: Resources
    pressure: NodePressure | None
    """None: unknown."""


class NodesThatWait(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of known pressure: those that hurt, and those that are only busy."""

    known: int
    nodes: int
    thresholds: PressureThresholds
    configured: bool
    """Whether `thresholds` are those of the configuration."""

    required: bool
    """Whether `descheduler.requirePressure` is set."""

    hurt: dict[str, str] = {}
    """How long pods wait, by node."""

    only_busy: list[str] = []
    """The nodes above a load threshold on which nobody waits for the resources in which they are."""


def nodes_that_wait(nodes: Sequence[LoadAndPressure], thresholds: Thresholds, *, required: bool) -> NodesThatWait:
    """The pressure of these nodes, compared with the configured thresholds or else with `EXAMPLE`."""
    configured = thresholds.pressure != PressureThresholds()
    limits = thresholds.pressure if configured else EXAMPLE
    hurt = {
        node.name: contention_text(waiting, limits) for node in nodes if (waiting := contention(node.pressure, limits))
    }
    return NodesThatWait(
        known=sum(node.pressure is not None and node.pressure.waiting != Pressure() for node in nodes),
        nodes=len(nodes),
        thresholds=limits,
        configured=configured,
        required=required,
        hurt=hurt,
        only_busy=[
            node.name
            for node in nodes
            if node.name not in hurt
            and (busy := _above(node.load, thresholds))
            and busy <= uncontended(node.pressure, limits)
        ],
    )


def _above(load: Resources, thresholds: Thresholds) -> set[str]:
    """The resources in which a node is above its load threshold."""
    values = [(name, getattr(load, name), getattr(thresholds.high, name)) for name in RESOURCES]
    return {name for name, share, limit in values if share is not None and limit is not None and 100 * share > limit}


def sentences(found: NodesThatWait) -> Iterator[str]:
    """Which nodes hurt and which are only busy; nothing if no pressure is known."""
    if not found.known:
        return
    limits = contention_limits(found.thresholds)
    yield f"Pressure is known of {found.known} of {count(found.nodes, 'node')}."
    if found.hurt:
        named = [f"{node}: {text}" for node, text in found.hurt.items()]
        yield f"{count(len(found.hurt), 'node')} with pods that wait for others: {listed(named, MAX_NAMES)}."
    else:
        yield f"On no node pods wait for others ({limits})."
    if found.only_busy:
        verb = "is" if len(found.only_busy) == 1 else "are"
        yield (
            f"{count(len(found.only_busy), 'node')} {verb} only busy: above the load threshold, and pods do not wait: "
            f"{listed(found.only_busy, MAX_NAMES)}."
        )
        if not found.required:
            cpu = found.thresholds.cpu if found.thresholds.cpu is not None else EXAMPLE.cpu
            yield (
                f"With descheduler.requirePressure: true and thresholds.pressure: {{cpu: {cpu:g}}}, a node keeps its "
                "pods while they do not wait for CPU."
            )


def contention_limits(thresholds: PressureThresholds) -> str:
    """`more than 20% of the time for CPU, 20% for disks`."""
    limits = {name: getattr(thresholds, name) for name in CONTENDED_RESOURCES}
    named = [f"{limit:g}% for {RESOURCE_NAMES[name]}" for name, limit in limits.items() if limit is not None]
    return f"more than {' or '.join(named)}"


def waiting_text(pressure: NodePressure | None) -> str:
    """`CPU 31%, memory 0%, disks 2%`: the share of time in which processes of the node wait; empty if it is unknown."""
    shares_of_time = {RESOURCE_NAMES[name]: waiting_of(pressure, name) for name in CONTENDED_RESOURCES}
    return ", ".join(f"{name} {share:.0%}" for name, share in shares_of_time.items() if share is not None)


def pod_waiting_text(pressure: MeasuredPodPressure | None) -> str:
    """`CPU 12%, throttled 40%`: how long a pod waits; empty if no value is known, or all are near 0."""
    if pressure is None:
        return ""
    values = [(RESOURCE_NAMES[name], getattr(pressure, name)) for name in CONTENDED_RESOURCES]
    values.append(("throttled", pressure.throttled))
    text = ", ".join(f"{name} {share:.0%}" for name, share in values if share is not None)
    return f"{text} (own limit)" if is_throttled(pressure) else text
