"""Plants defects in copies of the source tree and checks that the tests detect them.

`make chaos PLANTED=1` runs the fastest tests that must detect each; `PLANTED=real` runs a fault on a real cluster whose
invariant must. Both run on an unchanged copy first, because a test that fails anyway detects nothing. A patch that no
longer applies is an error: the defect must then be planted in another way.

Exit codes: 0 all were detected, 1 one was not, 2 an error of the script, the copy or the tests.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1
"""Exit code of pytest, and of the campaign after a violation; any other means that nothing was tested."""

LIBRARIES = "libs/common/src/equipoise"
BINDER = "services/binder/src/equipoise/binder"
COLLECTOR = "services/collector/src/equipoise/collector"


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a file, and its replacement."""

    file: str
    before: str
    after: str


class Defect(msgspec.Struct, frozen=True, kw_only=True):
    """A defect, and what must detect it."""

    name: str
    patches: tuple[Patch, ...]
    tests: tuple[str, ...]
    """For pytest."""

    fault: str
    """Of the campaign."""

    invariant: str
    """The one that this fault must violate."""


DEFECTS = (
    Defect(
        name="limits off",
        patches=(
            Patch(
                file=f"{BINDER}/decisions/limits/rule.py",
                before="        if counted < allowed:",
                after="        if True:",
            ),
        ),
        tests=("tests/binder/test_ledger_writer.py", "-k", "one_set_of_limits"),
        fault="killed_binders",
        invariant="I1",
    ),
    Defect(
        name="UID precondition off",
        patches=(
            Patch(
                file=f"{LIBRARIES}/runtime/kubernetes/http.py",
                before='options: dict[str, Any] = {"preconditions": {"uid": uid}}',
                after="options: dict[str, Any] = {}",
            ),
        ),
        tests=("tests/runtime/test_http.py", "-k", "rehearsal"),
        fault="recreated",
        invariant="I4",
    ),
    Defect(
        name="staleness check off",
        patches=(
            Patch(
                file=f"{LIBRARIES}/contracts/load/correction.py",
                before="return -FUTURE_TOLERANCE <= age <= max_age and abs(skew) <= skew_limit",
                after="return True",
            ),
        ),
        tests=("tests/binder/test_validation.py", "-k", "stale"),
        fault="budgets",
        invariant="I6",
    ),
    Defect(
        name="NaN read as 0",
        patches=(
            Patch(
                file=f"{COLLECTOR}/sources/prometheus/samples.py",
                before='"-Inf": -math.inf}.get(value, math.nan)',
                after='"-Inf": -math.inf}.get(value, 0.0)',
            ),
        ),
        tests=("tests/collector/test_samples.py",),
        fault="not_numbers",
        invariant="I8",
    ),
    Defect(
        name="dedupe off",
        patches=(
            Patch(
                file=f"{BINDER}/service.py",
                before="entry = ledger.entry(intent.id)",
                after="entry: LedgerEntry | None = None",
            ),
            Patch(
                file=f"{BINDER}/service.py",
                before="if (outcome := self._published.get(intent.id)) is not None:",
                after="if False:",
            ),
            Patch(
                file=f"{BINDER}/service.py",
                before="        if entry is None or entry.outcome is None:",
                after="        if True:",
            ),
            Patch(
                file=f"{BINDER}/shell/ledger_writer.py",
                before="            if ledger.entry(intent.id) is not None:",
                after="            if False:",
            ),
            Patch(
                file=f"{BINDER}/state/ledger.py",
                before="        if self.entry(entry.intent_id) is not None:",
                after="        if False:",
            ),
            Patch(file=f"{BINDER}/decisions/admission.py", before="    if other is not None:", after="    if False:"),
        ),
        tests=("tests/binder/test_service.py", "-k", "redelivery"),
        fault="redelivered",
        invariant="I5",
    ),
    Defect(
        name="fencing off",
        patches=(
            Patch(file=f"{BINDER}/decisions/staleness.py", before="    if epoch != live:", after="    if False:"),
            Patch(
                file=f"{BINDER}/decisions/staleness.py",
                before="    if newest is not None and newest.lease_uid == epoch.lease_uid",
                after="    if False and newest is not None and newest.lease_uid == epoch.lease_uid",
            ),
        ),
        tests=("tests/binder/test_service.py", "-k", "older_leader"),
        fault="stopped_descheduler",
        invariant="I7",
    ),
    Defect(
        name="recheck off",
        patches=(
            Patch(
                file=f"{BINDER}/service.py",
                before="        return self._clock.monotonic() - valid.read_at < MAX_READ_AGE",
                after="        return True",
            ),
        ),
        tests=("tests/binder/test_read_age.py", "-k", "slow_write"),
        fault="slow_ledger",
        invariant="I18",
    ),
)


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


def copy(tree: Path) -> None:
    """Copies the part of the source tree that the tests need."""
    ignored = shutil.ignore_patterns(".venv", ".tools", ".git", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, tree, ignore=ignored)


def environment(tree: Path) -> Mapping[str, str]:
    """The modules of the copy come before the installed ones, also for services."""
    sources = [*sorted(tree.glob("libs/*/src")), *sorted(tree.glob("services/*/src")), tree / "tests"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))}


def command(defect: Defect, *, real: bool) -> list[str]:
    if real:
        return [sys.executable, "-m", "faults", "--short", "--seeds", "1", "--faults", defect.fault]
    return [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *defect.tests]


def run(tree: Path, defect: Defect, *, real: bool) -> tuple[int, str]:
    result = subprocess.run(
        command(defect, real=real),
        cwd=tree,
        env=environment(tree),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return result.returncode, result.stdout + result.stderr


def _row(*cells: object) -> None:
    print("{:<22} {:<28} {:>8}  {}".format(*map(str, cells)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos PLANTED=1", description=__doc__)
    parser.add_argument("--real", action="store_true", help="run faults on a real cluster instead of tests")
    parser.add_argument("--only", default="", help="names of defects, separated by commas")
    options = parser.parse_args()
    defects = [defect for defect in DEFECTS if not options.only or defect.name in options.only.split(",")]
    with tempfile.TemporaryDirectory(prefix="equipoise-planted-") as folder:
        clean, tree = Path(folder) / "clean", Path(folder) / "planted"
        copy(clean)
        try:
            return _try(defects, clean, tree, real=options.real)
        except Misplaced as error:
            print(f"a defect cannot be planted: {error}", file=sys.stderr)
            return 2


def _try(defects: Iterable[Defect], clean: Path, tree: Path, *, real: bool) -> int:
    _row("defect", "by", "seconds", "")
    exit_code = 0
    for defect in defects:
        by = f"{defect.fault}, {defect.invariant}" if real else Path(defect.tests[0]).stem
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(clean, tree)
        code, output = run(tree, defect, real=real)
        if code != 0:
            print(f"{output[-3000:]}\nwithout the defect the tests do not pass (exit code {code})", file=sys.stderr)
            _row(defect.name, by, "", "unknown")
            exit_code = 2
            continue
        plant(tree, defect)
        started = time.monotonic()
        code, output = run(tree, defect, real=real)
        detected = code == TESTS_FAILED and (not real or f"  {defect.invariant}: " in output)
        _row(defect.name, by, f"{time.monotonic() - started:.1f}", "detected" if detected else "NOT DETECTED")
        if not detected:
            print(output[-3000:], file=sys.stderr)
            exit_code = exit_code or 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
