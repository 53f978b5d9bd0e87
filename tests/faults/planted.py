"""Plants defects in copies of the source tree and checks that the tests detect them.

`make chaos PLANTED=1` runs the fastest tests that must detect each; `PLANTED=real` runs a fault on a real cluster whose
invariant must. All of them run once on an unchanged copy first, because a test that fails anyway detects nothing. A
patch that no longer applies is an error: the defect must then be planted in another way.

Exit codes: 0 all were detected, 1 one was not, 2 an error of the script, the copy or the tests.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import msgspec

from faults.defects import DEFECTS, Defect, Patch

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1
"""Exit code of pytest, and of the campaign after a violation; any other means that nothing was tested."""


class Misplaced(Exception):
    """A patch does not apply."""


def patched(text: str, patch: Patch) -> str:
    """Raises Misplaced unless the file contains the text exactly once."""
    found = text.count(patch.before)
    if found != 1:
        raise Misplaced(f"{patch.file} contains the text {found} times, not once: {patch.before!r}")
    return text.replace(patch.before, patch.after)


def plant(tree: Path, defect: Defect) -> None:
    """Raises Misplaced before anything is changed."""
    changed: dict[Path, str] = {}
    for patch in defect.patches:
        file = tree / patch.file
        changed[file] = patched(changed.get(file) or file.read_text(), patch)
    for file, text in changed.items():
        file.write_text(text)


def repair(tree: Path, defect: Defect) -> None:
    """The files are as before, with their times: compiled ones are compiled again."""
    for patch in defect.patches:
        shutil.copy2(ROOT / patch.file, tree / patch.file)


def copy(tree: Path) -> None:
    """Copies the part of the source tree that the tests need."""
    ignored = shutil.ignore_patterns(".venv", ".tools", ".git", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, tree, ignore=ignored)


def environment(tree: Path) -> Mapping[str, str]:
    """The modules of the copy come before the installed ones, also for services."""
    sources = [*sorted(tree.glob("libs/*/src")), *sorted(tree.glob("services/*/src")), tree / "tests"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))}


def command(defects: Sequence[Defect], *, real: bool) -> list[str]:
    """What must detect these defects, each test and each fault once."""
    if real:
        faults = ",".join(dict.fromkeys(defect.fault for defect in defects))
        return [sys.executable, "-m", "faults", "--short", "--seeds", "1", "--faults", faults]
    tests = dict.fromkeys(test for defect in defects for test in defect.tests)
    return [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]


def run(tree: Path, defects: Sequence[Defect], *, real: bool) -> tuple[int, str]:
    result = subprocess.run(
        command(defects, real=real),
        cwd=tree,
        env=environment(tree),
        capture_output=True,
        text=True,
        check=False,
        timeout=3_600,
    )
    return result.returncode, result.stdout + result.stderr


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One planted defect."""

    defect: Defect
    detected: bool
    seconds: float
    by: str
    output: str


def trial(tree: Path, defect: Defect, *, real: bool) -> Trial:
    """Raises Misplaced."""
    plant(tree, defect)
    started = time.monotonic()
    try:
        code, output = run(tree, [defect], real=real)
    finally:
        repair(tree, defect)
    detected = code == TESTS_FAILED and (not real or f"  {defect.invariant}: " in output)
    failed = re.search(r"^FAILED (\S+)", output, re.MULTILINE)
    by = f"{defect.fault}, {defect.invariant}" if real else failed[1] if failed else " ".join(defect.tests)
    return Trial(defect=defect, detected=detected, seconds=time.monotonic() - started, by=by, output=output)


def row(found: Trial) -> str:
    """In Markdown, for docs/reliability.md."""
    result = "detected" if found.detected else "NOT DETECTED"
    return f"| {found.defect.name} | `{found.by}` | {found.seconds:.1f} | {result} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos PLANTED=1", description=__doc__)
    parser.add_argument("--real", action="store_true", help="run faults on a real cluster instead of tests")
    parser.add_argument("--only", default="", help="names of defects, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="defects that are tried at the same time")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [defect.name for defect in DEFECTS]
    if unknown := set(names) - {defect.name for defect in DEFECTS}:
        parser.error(f"unknown defect: {', '.join(sorted(unknown))}")
    chosen = [defect for defect in DEFECTS if defect.name in names and (defect.fault or not options.real)]
    with tempfile.TemporaryDirectory(prefix="equipoise-planted-") as folder:
        try:
            return _try(chosen, Path(folder), jobs=options.jobs, real=options.real)
        except Misplaced as error:
            print(f"a defect cannot be planted: {error}", file=sys.stderr)
            return 2


def _try(defects: Sequence[Defect], folder: Path, *, jobs: int, real: bool) -> int:
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        tree = folder / str(number)
        copy(tree)
        trees.put(tree)
    code, output = run(tree, defects, real=real)
    if code != 0:
        print(f"{output[-3000:]}\nwithout a defect the tests do not pass (exit code {code})", file=sys.stderr)
        return 2
    print("| defect | detected by | seconds | |\n|---|---|---|---|", flush=True)

    def one(defect: Defect) -> bool:
        tree = trees.get()
        try:
            found = trial(tree, defect, real=real)
        finally:
            trees.put(tree)
        print(row(found), flush=True)
        if not found.detected:
            print(found.output[-2000:], file=sys.stderr, flush=True)
        return found.detected

    with ThreadPoolExecutor(jobs) as pool:
        return 0 if all(list(pool.map(one, defects))) else 1


if __name__ == "__main__":
    sys.exit(main())
