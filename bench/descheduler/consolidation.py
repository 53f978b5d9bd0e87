"""Fewer nodes: the same pods on nodes that Karpenter has made, on a cluster of their own for each participant.

The pods use what a day needs, which is compressed and repeats; many request far more, some far less. Karpenter 1.15
with its kwok provider removes nodes: empty ones only, or as its `consolidationPolicy` allows. Its own intervals are not
compressed: it looks for nodes every 10 seconds and checks each decision for 15 seconds.

With `--results FILE`, results are also appended to the file, and participants that it already contains are not run.
"""

import argparse
import asyncio
import re
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.output import progress
from equipoise.cli.demo.consolidation.figures import ConsolidationFigures
from equipoise.cli.demo.consolidation.fleet import INSTANCE_TYPE, fleet
from equipoise.cli.demo.consolidation.run import Course, Participant, run_participant
from equipoise.cli.demo.consolidation.settings import CONSOLIDATION
from equipoise.lab.model.resource_requests import RequestsVariant, with_requests
from equipoise.lab.resource_requests.proposals import proposals
from equipoise.testbed.karpenter import build_karpenter

PARTICIPANTS = (
    Participant(name="nothing, WhenEmpty", policy="WhenEmpty"),
    Participant(name="Karpenter, Balanced", policy="Balanced"),
    Participant(name="Karpenter, WhenEmptyOrUnderutilized", policy="WhenEmptyOrUnderutilized"),
    Participant(name="Equipoise, WhenEmpty", policy="WhenEmpty", settings=CONSOLIDATION),
)


def print_table(results: list[ConsolidationFigures]) -> None:
    """Prints the results as a table."""
    first = results[0]
    bound = (
        f"{first.fewest_nodes}"
        if first.fewest_nodes == first.sufficient_nodes
        else f"{first.fewest_nodes} to {first.sufficient_nodes}"
    )
    title = (
        f"Nodes of type {INSTANCE_TYPE.name} at {INSTANCE_TYPE.price:.2f} per hour, {first.hours:.0f} hours; "
        f"the requests of the pods need {bound}"
    )
    table = Table(title=title, box=None)
    columns = (
        "nodes",
        "node-hours",
        "price",
        "evictions",
        "missing s",
        "hot node-hours",
        "hottest",
        "pending",
        "longest s",
    )
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for result in results:
        table.add_row(
            result.name,
            f"{result.nodes_before} → {result.nodes_after}",
            f"{result.node_hours:.0f}",
            f"{result.price:.2f}",
            f"{result.evictions_before} + {result.evictions}",
            f"{result.missing_seconds:.0f}",
            f"{result.hot_node_hours:.1f} ({result.hot_node_hours / result.node_hours:.1%})",
            "?" if result.hottest is None else f"{result.hottest:.0f} %",
            f"{result.pending_pods}",
            f"{result.longest_pending:.0f}",
        )
    console = Console(file=sys.stderr)
    console.width = max(console.width, 180)
    console.print(table)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-seconds", type=int, default=6, help="real seconds of 15 minutes of the day")
    parser.add_argument("--warm-up-days", type=int, default=1, help="days before the first node may be removed")
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument(
        "--requests", choices=["present", "proposed"], default="present", help="proposed: by `lab whatif --requests`"
    )
    parser.add_argument("--setup-seconds", type=float, default=90.0, help="until the first day begins")
    parser.add_argument("--results", type=Path, help="file to which results are appended; its runs are not repeated")
    parser.add_argument("--only", default="", help="regular expression of the participants to run")
    options = parser.parse_args()
    course = Course(
        step_seconds=options.step_seconds,
        warm_up_days=options.warm_up_days,
        days=options.days,
        setup_seconds=options.setup_seconds,
    )
    lines = options.results.read_text().splitlines() if options.results and options.results.exists() else []
    results = {
        result.name: result for result in (msgspec.json.decode(line, type=ConsolidationFigures) for line in lines)
    }
    karpenter = await asyncio.to_thread(build_karpenter)
    trace = fleet(options.seed, options.nodes)
    if options.requests == "proposed":
        requests = tuple(proposal.proposed for proposal in proposals(trace))
        trace = with_requests(trace, RequestsVariant(name="proposed", requests=requests))
    for participant in PARTICIPANTS:
        if options.requests != "present":
            name = f"{participant.name}, {options.requests} requests"
            participant = msgspec.structs.replace(participant, name=name)  # noqa: PLW2901
        if participant.name in results or not re.search(options.only, participant.name):
            continue
        result = await run_participant(participant, trace, karpenter, course, seed=options.seed, report=progress)
        results[participant.name] = result
        line = msgspec.json.encode(result).decode()
        print(line, flush=True)
        if options.results:
            with options.results.open("a") as file:
                file.write(line + "\n")
    if results:
        print_table(list(results.values()))


if __name__ == "__main__":
    asyncio.run(main())
