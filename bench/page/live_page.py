"""The page of `equipoise dashboard` with 5,000 nodes in a real Chromium: first paint, and updates."""

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.output import progress, report

NODES = 5_000


def main() -> None:
    progress(f"{NODES} nodes, headless Chromium; the page is that of the tests")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "tests")}
    command = [sys.executable, "-m", "cli.live_pages", "measure", str(NODES)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)  # noqa: S603  ours
    found = json.loads(ended.stdout)
    report("live_page_first_paint", found["first_paint"], "ms", target=("<=", 2_000), nodes=NODES)
    report("live_page_update_median", found["update_median"], "ms", target=("<=", 100), changed=found["changed"])
    report("live_page_update_worst", found["update_worst"], "ms", target=("<=", 100), updates=found["updates"])


if __name__ == "__main__":
    main()
