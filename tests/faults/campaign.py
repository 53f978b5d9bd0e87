"""Runs faults one after another on one cluster, and reports the violated invariants of each."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from traceback import format_exception

import msgspec

from equipoise.runtime.configuration import Logging
from equipoise.runtime.process.logging import configure_logging
from equipoise.testbed.binaries.build import build
from faults import cluster_setup
from faults.catalog import FAULTS, Extent
from faults.invariants import INVARIANTS, violations
from faults.rig import Inconclusive, Rig, rig


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One fault with one seed."""

    fault: str
    seed: int
    seconds: float
    inconclusive: str = ""
    violations: dict[str, list[str]] = {}
    happened: dict[str, int] = {}
    outcomes: dict[str, int] = {}

    @property
    def broken(self) -> dict[str, list[str]]:
        return {name: found for name, found in self.violations.items() if found}

    @property
    def passed(self) -> bool:
        return not self.broken and not self.inconclusive


async def run_fault(rig: Rig, name: str, seed: int, extent: Extent) -> Result:
    """One run, from its first intent to its result."""
    fault = FAULTS[name]
    started = time.monotonic()
    inconclusive = ""
    try:
        async with rig.running(seed, name, nats_servers=fault.nats_servers):
            await fault.run(rig, extent)
            await rig.traffic(fault.minimum)
    except Exception as error:
        inconclusive = str(error) if isinstance(error, Inconclusive) else "".join(format_exception(error))
        rig.stop_programs()
        rig.recorder.streams_emptied()  # pending intents do not concern the next run
        if not isinstance(error, Inconclusive):  # it may have left damaged streams
            await rig.restart_nats_empty()
    if fault.nats_servers > 1:
        rig.recorder.outcomes_refused()
    history = rig.recorder.history(rig.since)
    if fault.nats_servers > 1:
        rig.recorder.streams_emptied()  # the servers of this run are gone
    violated = violations(history, cluster_setup.guarantees())
    if fault.also is not None:
        violated["also"] = fault.also(history)
    if inconclusive:
        violated["I5"] = []  # the run did not wait for outcomes
    new = {published.intent.id for published in history.new_intents}  # outcomes of earlier runs may be repeated
    first = {outcome.intent_id: outcome.outcome for outcome in reversed(history.outcomes) if outcome.intent_id in new}
    return Result(
        fault=name,
        seed=seed,
        seconds=round(time.monotonic() - started, 1),
        inconclusive=inconclusive or fault.minimum.missing(history),
        violations=violated,
        happened={
            "intents": len(history.new_intents),
            "posts": len(history.new_posts),
            "evictions": len(history.new_evictions),
            "events": sum(event.at >= history.since for event in history.events),
            "events lost": sum(event.at >= history.since and not event.stored for event in history.events),
        },
        outcomes=dict(Counter(first.values())),
    )


def line(result: Result) -> str:
    """One run, as text."""
    verdict = "passed" if result.passed else "VIOLATED" if result.broken else "inconclusive"
    happened = ", ".join(f"{count} {what}" for what, count in result.happened.items())
    text = f"{result.fault} (seed {result.seed}): {verdict} in {result.seconds:g} s; {happened}"
    details = [f"  {name}: {wrong}" for name, found in result.broken.items() for wrong in found[:5]]
    if result.inconclusive:
        details.append(f"  {result.inconclusive}")
    return "\n".join([text, *details])


def _by_fault(results: Iterable[Result]) -> Mapping[str, list[Result]]:
    rows: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        rows[result.fault].append(result)
    return rows


def table(results: Iterable[Result]) -> str:
    """Faults x invariants: how many runs violated it, · for none; and the traffic of all runs."""
    columns = [*INVARIANTS, "also"]
    head = f"{'fault':<20} {'runs':>4} {'inconclusive':>6} " + " ".join(f"{name:>4}" for name in columns)
    lines = [f"{head} {'intents':>8} {'evictions':>9}"]
    for fault, runs in _by_fault(results).items():
        violated = [sum(bool(run.violations.get(name)) for run in runs) or "·" for name in columns]
        inconclusive = sum(bool(run.inconclusive) for run in runs)
        sums = [sum(run.happened.get(what, 0) for run in runs) for what in ("intents", "evictions")]
        cells = " ".join(f"{count!s:>4}" for count in violated)
        lines.append(f"{fault:<20} {len(runs):>4} {inconclusive or '·':>6} {cells} {sums[0]:>8} {sums[1]:>9}")
    return "\n".join(lines)


def markdown(results: Iterable[Result]) -> str:
    """A row per fault, for docs/reliability.md."""
    lines = [
        "| fault | plan | runs | intents | evictions | violations | inconclusive |",
        "|---|---|---|---|---|---|---|",
    ]
    for fault, runs in _by_fault(results).items():
        covers = ", ".join(f"F{number}" for number in FAULTS[fault].covers)
        sums = [f"{sum(run.happened.get(what, 0) for run in runs):,}" for what in ("intents", "evictions")]
        violated = sum(len(found) for run in runs for found in run.broken.values())
        inconclusive = sum(bool(run.inconclusive) for run in runs)
        cells = (f"`{fault}`", covers, len(runs), *sums, violated, inconclusive)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


async def run_all(
    rig: Rig, names: Iterable[str], seed: int, extent: Extent, report: Callable[[str], None]
) -> list[Result]:
    results = []
    for name in names:
        result = await run_fault(rig, name, seed, extent)
        report(line(result))
        results.append(result)
    return results


def run_seeds(
    wanted: Iterable[int], names: Sequence[str], extent: Extent, *, jobs: int = 1, keep: Path | None = None
) -> list[Result]:
    """Each seed on a cluster of its own, `jobs` at the same time; the results in the order of the seeds."""
    arguments = [(seed, names, extent, keep / f"seed-{seed}" if keep else None) for seed in wanted]
    if jobs <= 1:
        return [result for each in arguments for result in run_seed(*each)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as processes:
        running = [processes.submit(run_seed, *each) for each in arguments]
        return [result for each in running for result in each.result()]


def run_seed(seed: int, names: Sequence[str], extent: Extent, directory: Path | None) -> list[Result]:
    """In a process or alone: it starts an event loop."""

    async def run() -> list[Result]:
        async with rig(build(), directory) as started:
            return await run_all(started, names, seed, extent, _print)

    configure_logging(Logging(level="error"), "faults")
    return asyncio.run(run())


def _print(text: str) -> None:
    print(text, flush=True)


def exit_code(results: Iterable[Result]) -> int:
    """0 every run passed, 1 an invariant was violated, 2 a run was inconclusive."""
    found = list(results)
    if any(result.broken for result in found):
        return 1
    return 2 if not found or any(result.inconclusive for result in found) else 0


def seeds(text: str) -> list[int]:
    """Of `1,2,5` or `1-20`."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(part) for part in text.split(",")]
