"""Equipoise and the upstream descheduler level the same fleet, one after the other: same start, load and Prometheus.

The stock scheduler places a fleet whose requests are unrelated to its usage; every run starts from that placement, pod
by pod. The load is constant, because the descheduler does not use daily patterns. Time is compressed: evaluations take
place every 5 s (`--interval`), which corresponds to 30 s of the descheduler (factor 6) and 120 s of Equipoise (factor
24, for every window, cooldown and limit). A run ends after its maximum time, or when the spread has stopped falling.

With `--results FILE`, results are also appended to the file, and runs that it already contains are not repeated.
"""

import argparse
import asyncio
import re
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.descheduler.initial_placement import stock_placement
from bench.descheduler.leveling_run import GRID, Contender, Result, constant_trace, contenders, run_contender
from bench.output import report
from equipoise.testbed.placement import Placement

MIN_SCRAPES = 0.95
"""Share of the expected scrapes. Below it, the machine was too busy for a valid result."""


class Results:
    """The initial placement and the results so far; stored in a file if one is given."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.start: Placement | None = None
        self.runs: dict[str, Result] = {}
        for line in file.read_text().splitlines() if file is not None and file.exists() else ():
            self._load(line)

    def _load(self, line: str) -> None:
        if line.startswith('{"start"'):
            self.start = msgspec.json.decode(line, type=dict[str, Placement])["start"]
        else:
            result = msgspec.json.decode(line, type=Result)
            self.runs[result.name] = result

    def set_start(self, start: Placement) -> None:
        self.start = start
        self._append(msgspec.json.encode({"start": start}).decode())

    def add(self, result: Result) -> None:
        self.runs[result.name] = result
        line = msgspec.json.encode(result).decode()
        self._append(line)
        print(line, flush=True)

    def _append(self, line: str) -> None:
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(line + "\n")

    def best_of_grid(self) -> Result | None:
        """The descheduler's run with the smallest final spread; None while runs are missing."""
        grid = [f"descheduler, {row[0]}, {row[4]} per node" for row in GRID]
        if any(name not in self.runs for name in grid):
            return None
        return min((self.runs[name] for name in grid), key=lambda result: result.spread_after)


def print_table(results: Results) -> None:
    """Prints the results as a table."""
    table = Table(title="Leveling the same fleet from the same placement: CPU load of nodes in percent", box=None)
    columns = ("spread", "std", "hot nodes", "hottest", "evictions", "per point", "returns", "minutes to level")
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for result in results.runs.values():
        per_point, minutes = result.per_point, result.level_after_minutes
        table.add_row(
            result.name + (" (machine too busy: run it again)" if result.scrapes < MIN_SCRAPES else ""),
            f"{result.spread_before:.0f} → {result.spread_after:.0f}",
            f"{result.deviation_before:.1f} → {result.deviation_after:.1f}",
            f"{result.hot_before} → {result.hot_after:g}",
            f"{result.hottest_after:.0f}",
            f"{result.evictions}",
            "-" if per_point is None else f"{per_point:.2f}",
            f"{result.returns}",
            "never" if minutes is None else f"{minutes:.0f}",
        )
    console = Console(file=sys.stderr)
    console.width = max(console.width, 180)
    console.print(table)


def report_targets(results: Results, best: Result) -> None:
    """Equipoise compared with the best run of the descheduler."""
    for contender in contenders():
        if contender.descheduler or contender.name not in results.runs:
            continue
        result = results.runs[contender.name]
        report(
            "level_vs_descheduler/spread", result.spread_after, "points", target=("<=", 0.5),
            baseline=best.spread_after, run=result.name, against=best.name,
        )  # fmt: skip
        if result.per_point is not None:
            # If the spread did not fall with the descheduler, there is no baseline.
            target = ("<=", 1.0) if best.per_point is not None else None
            report(
                "level_vs_descheduler/evictions_per_point", result.per_point, "evictions", target=target,
                baseline=best.per_point, run=result.name, against=best.name,
            )  # fmt: skip
        if result.evictions:
            report(
                "level_vs_descheduler/same_node_returns", result.returns / result.evictions, "share",
                target=("<=", 0.02), run=result.name,
            )  # fmt: skip


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--honest", action="store_true", help="requests follow usage, within a factor of two")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between evaluations, for all contenders")
    parser.add_argument("--evaluations", type=int, default=120, help="maximum number per run")
    parser.add_argument("--patience", type=int, default=24, help="evaluations without a lower spread that end a run")
    parser.add_argument("--results", type=Path, help="file to which results are appended; its runs are not repeated")
    parser.add_argument("--only", default="", help="regular expression of the runs to execute")
    options = parser.parse_args()
    results = Results(options.results)
    start = results.start or await stock_placement(constant_trace(options.seed, options.nodes, honest=options.honest))
    if results.start is None:
        results.set_start(start)
    trace = constant_trace(options.seed, options.nodes, start, honest=options.honest)

    async def run(contender: Contender) -> None:
        if contender.name not in results.runs and re.search(options.only, contender.name):
            result = await run_contender(
                contender, trace, start, interval=options.interval,
                max_seconds=options.interval * options.evaluations, patience=options.interval * options.patience,
            )  # fmt: skip
            results.add(result)

    for contender in contenders():
        await run(contender)
    if best := results.best_of_grid():
        row = next(contender for contender in contenders() if contender.name == best.name).descheduler
        name = f"{best.name}, beside Equipoise's scorer"
        await run(Contender(name=name, services=("collector", "scorer"), descheduler=row))
    print_table(results)
    if best:
        report_targets(results, best)


if __name__ == "__main__":
    asyncio.run(main())
