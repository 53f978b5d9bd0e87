"""Runs the programs that build trees and images, in namespaces of their own: their mounts end with them."""

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from equipoise.testbed.binaries.build import minutes, run_step
from equipoise.testbed.binaries.toolchain import Progress
from equipoise.testbed.processes.guard import Guard
from equipoise.testbed.real_nodes.requirements import search_path

UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def run(what: str, argv: Sequence[str | Path], scratch: Path, progress: Progress, **environment: str) -> None:
    """Run a program in a mount and a PID namespace of its own. Raises BuildError with the end of its output.

    The variables of our Python do not reach the Python of an image, which would use our folder of compiled modules.
    """
    began = time.monotonic()
    without_python = {name: None for name in os.environ if name.startswith("PYTHON")}
    nice = ["nice"] if shutil.which("nice") else []
    with Guard() as guard:
        run_step(
            guard,
            [*nice, *UNSHARE, *argv],
            what=what,
            log=scratch / f"{what}.log",
            directory=scratch,
            environment={**without_python, "TMPDIR": str(scratch), "PATH": search_path(), **environment},
            show=lambda lines: progress.show(f"{what}: {minutes(time.monotonic() - began)} {_last(lines)}".rstrip()),
        )


def _last(lines: Sequence[str]) -> str:
    """The last line that names a step of mmdebstrap or buildah."""
    return next((line[:100] for line in reversed(lines) if re.match(r"I: |STEP ", line)), "")
