"""`make chaos`: every fault with every seed, each seed on a fresh cluster; a table at the end.

With --soak one cluster runs for this long, and faults are injected at random (soak.py).

Exit codes: 0 every run passed, 1 an invariant was violated, 2 a run was inconclusive.
"""

import argparse
import asyncio
import json
import os
import secrets
import sys
from pathlib import Path

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.runtime.configuration import Logging
from equipoise.runtime.process.logging import configure_logging
from equipoise.testbed.binaries.build import build
from faults.campaign import exit_code, markdown, run_seeds, seeds, table
from faults.catalog import FAULTS, LONG, SHORT
from faults.catalog.versions import CHOSEN
from faults.rig import Inconclusive, rig
from faults.soak import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seeds", help='"1,2,3" (the default), or "1-20"; of a soak one (default: at random)')
    parser.add_argument("--soak", type=Duration.parse, metavar="DURATION", help="faults at random: 10m, 1h")
    parser.add_argument("--faults", help="names separated by commas (default: all that this machine can have)")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--short", action="store_true", help="the short form of each fault (the default)")
    extent.add_argument("--long", action="store_true", help="the long form: four times as many kills, restarts, storms")
    parser.add_argument("--jobs", type=int, default=1, help="seeds that run at the same time, each on its own cluster")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--keep", type=Path, help="a directory for the logs of all processes")
    parser.add_argument("--other-build", metavar="COMMIT", help="of mixed_versions; default: see catalog/versions.py")
    parser.add_argument("--json", type=Path, help="a file for one line per run")
    options = parser.parse_args()
    names = options.faults.split(",") if options.faults else _possible()
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        parser.error(f"unknown fault: {unknown[0]}; available: {', '.join(FAULTS)}")
    if options.other_build:
        os.environ[CHOSEN] = options.other_build  # also for the processes of other seeds
    build()  # before several processes need the programs
    if options.soak is not None:
        seed = seeds(options.seeds)[0] if options.seeds else secrets.randbelow(1_000_000)
        return asyncio.run(_soak(options.soak, seed, options.keep))
    chosen = LONG if options.long else SHORT
    results = run_seeds(seeds(options.seeds or "1,2,3"), names, chosen, jobs=options.jobs, keep=options.keep)
    _print("")
    _print(markdown(results) if options.markdown else table(results))
    if options.json:
        options.json.write_text("".join(json.dumps(msgspec.to_builtins(result)) + "\n" for result in results))
    return exit_code(results)


def _possible() -> list[str]:
    """The names of the faults; says which this machine cannot have."""
    reasons = {name: fault.why_not() for name, fault in FAULTS.items() if fault.why_not is not None}
    for name, reason in reasons.items():
        if reason:
            _print(f"{name} is not run: {reason}")
    return [name for name in FAULTS if not reasons.get(name)]


async def _soak(seconds: float, seed: int, keep: Path | None) -> int:
    configure_logging(Logging(level="error"), "faults")
    _print(f"seed {seed} (SEEDS={seed} chooses the same faults again)")
    async with rig(build(), keep) as started:
        try:
            report = await soak(started, seed, seconds, _print)
        except Inconclusive as error:
            _print(f"inconclusive: {error}")
            return 2
    _print(f"\n{report.text()}")
    return report.exit_code


def _print(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
