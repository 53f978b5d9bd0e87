"""`make chaos`: every fault with every seed, each seed on a fresh cluster; a table at the end.

Exit codes: 0 every run passed, 1 an invariant was violated, 2 a run was inconclusive.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

import msgspec

from equipoise.runtime.configuration import Logging
from equipoise.runtime.process.logging import configure_logging
from equipoise.testbed.binaries.build import build
from faults.campaign import Result, exit_code, run_all, seeds, table
from faults.catalog import FAULTS, LONG, SHORT
from faults.rig import rig


async def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seeds", default="1,2,3", help='"1,2,3", or "1-20"')
    parser.add_argument("--faults", default=",".join(FAULTS), help="names separated by commas (default: all)")
    parser.add_argument("--short", action="store_true", help="the short form of `make test`")
    parser.add_argument("--keep", type=Path, help="a directory for the logs of all processes")
    parser.add_argument("--json", type=Path, help="a file for one line per run")
    options = parser.parse_args()
    names = options.faults.split(",")
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        parser.error(f"unknown fault: {unknown[0]}; available: {', '.join(FAULTS)}")
    configure_logging(Logging(level="error"), "faults")
    binaries = build()
    results: list[Result] = []
    for seed in seeds(options.seeds):
        directory = options.keep / f"seed-{seed}" if options.keep else None
        async with rig(binaries, directory) as started:
            results += await run_all(started, names, seed, SHORT if options.short else LONG, _print)
    _print("")
    _print(table(results))
    if options.json:
        options.json.write_text("".join(json.dumps(msgspec.to_builtins(result)) + "\n" for result in results))
    return exit_code(results)


def _print(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
