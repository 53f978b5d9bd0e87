"""Requests the answer from the leading descheduler, and prints it."""

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.bus.cluster import BusCluster, bus_cluster, leader_in_cluster, plan_cluster
from equipoise.cli.bus.messages import send_request
from equipoise.cli.consolidate.prices import consolidation_request
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import ClusterOptions, Output
from equipoise.cli.plan.run import NO_LEADER
from equipoise.cli.terminal import (
    GIB,
    UNIT,
    count,
    day_and_time,
    percent,
    print_result,
    print_section,
    table,
)
from equipoise.contracts.bus.subjects import PLAN_CONSOLIDATION
from equipoise.contracts.configuration.prices import HOURS_PER_MONTH, NO_CURRENCY, PriceTable
from equipoise.contracts.messages.consolidation import ConsolidationResponse, EmptiableNode, NodeHour, RequestsForMore
from equipoise.runtime.bus import NoResponders
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.logging import configure_logging

TIMEOUT = 90.0
"""Seconds for the answer. With 5,000 nodes it takes half a minute."""

MAX_ROWS = 20
"""The largest number of rows of each table. With -o wide, json or yaml there is no limit."""

BOUNDS = {
    "requests": "requests: no other node has as much free as their pods request",
    "load": "the load: the others would not stay below their thresholds in every hour",
    "constraints": "constraints of their pods: affinity, spread, volumes or ports",
    "pods": "pods that stay",
    "": "their own state",
}


class ShownConsolidation(ConsolidationResponse, frozen=True, kw_only=True):
    """The answer, and the cluster for which it was given."""

    cluster: BusCluster
    per_month: float | None = None
    """What the nodes cost in 730 hours; None if it is not known."""


async def run_consolidate(server: Nats, options: ClusterOptions, *, prices: PriceTable | None, output: Output) -> None:
    """Run the command. Raises BusError, and CommandFailed if the answer is of another cluster."""
    configure_logging(Logging(level="error"), "consolidate")
    bus_cluster(options, server)  # reports invalid options first
    request = consolidation_request(prices)
    try:
        answer = await send_request(
            server, PLAN_CONSOLIDATION, request, ConsolidationResponse, no_responder="", timeout=TIMEOUT
        )
    except NoResponders:
        no_leader = f"{NO_LEADER.format(url=server.shown_url)}{await leader_in_cluster(options)}"
        raise NoResponders(no_leader) from None
    cluster = await plan_cluster(options, answer.leader.lease_uid, server)
    shown = ShownConsolidation(cluster=cluster, per_month=per_month(answer.per_hour), **msgspec.structs.asdict(answer))
    print_result(shown, partial(show, wide=output == "wide", cluster=cluster), output=output)
    if cluster.state == "another":
        raise CommandFailed(
            "the answer is not of the cluster of the kubeconfig: check --nats, --context and --kubeconfig"
        )


def show(answer: ConsolidationResponse, to: Console, *, wide: bool = False, cluster: BusCluster | None = None) -> None:
    """The answer in a few sentences, the nodes that could go, and why the others stay."""
    if cluster is not None:
        to.print(Text(str(cluster)))
    to.print(Text(headline(answer), style="bold"))
    for line in _lines(answer):
        to.print(Text(line))
    if answer.shortened:
        to.print(Text(f"The answer was too large for the bus: it is {answer.shortened}.", style="yellow"))
    limit = len(answer.nodes) if wide else MAX_ROWS
    if answer.nodes:
        made = table("#>", "node", "type", "pods>", "nodes>", "below by>", "per month>")
        for number, node in enumerate(answer.nodes[:limit], start=1):
            made.add_row(str(number), *_cells(node, answer.currency))
        print_section(to, f"Nodes that could go, in this order{_more(answer.emptiable, limit)}", made)
    if answer.staying:
        limit = len(answer.staying) if wide else MAX_ROWS
        made = table("node", "bound by", "reason")
        for each in answer.staying[:limit]:
            made.add_row(each.node, each.bound or "node", each.why)
        print_section(to, f"Nodes that stay{_more(answer.considered - answer.emptiable, limit)}", made)


def headline(answer: ConsolidationResponse) -> str:
    """`3 of 40 nodes could go: 87.60 EUR a month, 61 pods to move, the hottest hour from 52.0% to 57.5%`."""
    if not answer.emptiable:
        return f"No node of {answer.considered:,} could go."
    parts = [f"{count(answer.pods, 'pod')} to move" if answer.pods else "no pod to move"]
    if answer.per_hour is not None:
        priced = f" (without {count(answer.unpriced, 'node')} without a price)" if answer.unpriced else ""
        parts.insert(0, f"{money(answer.per_hour, answer.currency)} a month{priced}")
    if answer.hottest_before is not None and answer.hottest_after is not None:
        before, after = percent(answer.hottest_before.load), percent(answer.hottest_after.load)
        parts.append(f"the hottest hour from {before} to {after}")
    return f"{answer.emptiable:,} of {count(answer.considered, 'node')} could go: {', '.join(parts)}."


def money(per_hour: float, currency: str) -> str:
    """`87.60 EUR`: what costs so much per hour, in a month of 730 hours."""
    code = f" {currency}" if currency and currency != NO_CURRENCY else ""
    return f"{per_hour * HOURS_PER_MONTH:,.2f}{code}"


def per_month(per_hour: float | None) -> float | None:
    return None if per_hour is None else per_hour * HOURS_PER_MONTH


def _lines(answer: ConsolidationResponse) -> Iterator[str]:
    yield f"{day_and_time(answer.planned_at)}, planned by {answer.leader.holder}; mode {answer.mode}"
    if answer.cluster_per_hour is not None:
        priced = (
            f", without {count(answer.cluster_unpriced, 'node')} without a price" if answer.cluster_unpriced else ""
        )
        yield f"all nodes cost {money(answer.cluster_per_hour, answer.currency)} a month{priced}"
    if answer.hottest_before is not None:
        yield f"hottest hour now:   {_hour(answer.hottest_before)}"
    if answer.hottest_after is not None and answer.emptiable:
        yield f"hottest hour then:  {_hour(answer.hottest_after)}"
    if answer.emptiable and answer.per_hour is None:
        yield "saving: unknown without prices (--prices FILE)"
    if answer.emptiable < answer.considered:
        yield f"most others stay because of {BOUNDS[answer.bound]}"
    if answer.unrecorded:
        yield (
            f"the errors of the daily profiles of {count(answer.unrecorded, 'workload')} are not recorded yet, which "
            "takes two days: a quarter of their mean counts in every hour, and more nodes may go when they are"
        )
    for each in answer.requests:
        yield _requests(each, answer.more)
    if answer.above:
        first, more = answer.above[0], len(answer.above) - 1
        others = f", and {more} more" if more else ""
        yield f"above a threshold without any change: {first.node}, {first.why}{others}"
    for node in answer.emptying:
        yield f"being emptied since {day_and_time(node.since)}: {node.node}, {node.why}"
    if answer.why:
        yield f"no {'further ' if answer.emptying else ''}node is emptied now: {answer.why}"


def _hour(hottest: NodeHour) -> str:
    return f"{percent(hottest.load)} {hottest.resource} at {hottest.hour:02}:00 UTC on {hottest.node}"


def _requests(each: RequestsForMore, more: int) -> str:
    """`for 3 nodes more, pods may request about 92.3 of their 100.0 cores of cpu (-7.7%)`."""
    scale = 1.0 if each.resource == "cpu" else GIB
    change = each.needed / each.requested - 1.0 if each.requested else 0.0
    return (
        f"for {count(more, 'node')} more, pods may request about {each.needed / scale:,.1f} of their "
        f"{each.requested / scale:,.1f} {UNIT.get(each.resource, '')} of {each.resource} ({change:+.1%})"
    )


def _cells(node: EmptiableNode, currency: str) -> Sequence[str]:
    below = "" if node.below is None else f"{node.below:.1f} points"
    price = "?" if node.price is None else money(node.price, currency)
    name = f"{node.node} (being emptied)" if node.being_emptied else node.node
    return name, node.instance_type or "?", f"{node.pods:,}", f"{node.targets:,}", below, price


def _more(total: int, limit: int) -> str:
    return f" (first {limit} of {total:,}, -o wide has more)" if total > limit else ""
