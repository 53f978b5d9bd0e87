"""Output for programs: names and times. Tables, for people."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
import yaml
from binder.ledgers import a_ledger, an_entry
from builders import NOW
from cli.narrow import printed
from hypothesis import given
from hypothesis import strategies as st

import equipoise.cli.main
from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.status import ledger_status
from equipoise.cli.annotations.clear import ClearResult
from equipoise.cli.cluster_access.ledger_change import LedgerChange
from equipoise.cli.consolidate.run import ShownConsolidation
from equipoise.cli.doctor.environment import Diagnosis
from equipoise.cli.explain.eviction import ShownHistory
from equipoise.cli.explain.node import ShownNode
from equipoise.cli.explain.scores import ShownExplanation
from equipoise.cli.plan.run import ShownChanges, ShownPlan
from equipoise.cli.rebalance.run import PreparedCampaign, ShownCampaign
from equipoise.cli.report.figures import PlacementReport
from equipoise.cli.status.run import ShownStatus
from equipoise.cli.terminal import duration, plain, print_result, rfc3339, table

RESULTS: tuple[type[msgspec.Struct], ...] = (
    ShownStatus, ShownPlan, ShownChanges, ShownExplanation, ShownNode, ShownHistory, PlacementReport, Diagnosis,
    ClearResult, LedgerChange, PreparedCampaign, ShownCampaign, ShownConsolidation,
)  # fmt: skip

NOT_TIMES = {
    "age", "below", "capacity", "cluster_per_hour", "cpu", "cpu_change", "disk", "duration", "ends_after", "further",
    "gain",
    "high_priority", "hint_chance", "hours", "interval", "io", "lasts", "length", "lifetime", "load", "margin",
    "memory", "needed", "observed", "parts", "per_hour", "per_month", "price", "regret", "regret_median",
    "regret_p90", "requested", "reserved", "score", "seconds", "share", "spread", "spread_after",
    "spread_before", "start", "system", "target_spread", "throttled", "valid_for",
}  # fmt: skip
"""Fields that are numbers but no times."""


def structs_of(kind: Any, found: set[type[msgspec.Struct]]) -> set[type[msgspec.Struct]]:
    """All types that a result contains."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in found:
        found.add(kind)
        for each in get_type_hints(kind).values():
            structs_of(each, found)
    for argument in get_args(kind):
        structs_of(argument, found)
    return found


def number_fields() -> Iterator[str]:
    for result in RESULTS:
        for kind in structs_of(result, set()):
            yield from (name for name, hint in get_type_hints(kind).items() if "float" in str(hint))


def test_every_number_is_a_time_by_its_name_or_known_not_to_be_one() -> None:
    """A new field of a result is added to NOT_TIMES, or named as a time."""
    times = {name for name in number_fields() if isinstance(plain(NOW, name), str)}
    assert set(number_fields()) - times == NOT_TIMES
    assert {"reserved_at", "since", "until", "halved_until", "failing_since"} <= times


def test_times_are_rfc_3339() -> None:
    """In UTC, with milliseconds; a time of 0 is unknown."""
    assert rfc3339(NOW + 0.25) == "2027-01-15T08:00:00.250Z"
    assert plain(0.0, "sampled_at") is None
    assert plain(0.5, "score") == 0.5


def names_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from names_in(each)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_names_are_those_of_messages(output: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In the ledger they are camelCase, as in Kubernetes objects."""
    status = ledger_status(a_ledger(an_entry("web-1", settled_at=NOW - 30, recovered_at=NOW)), Limits(), NOW)
    print_result(status, lambda *_: None, output=output)
    printed = capsys.readouterr().out
    read = json.loads(printed) if output == "json" else yaml.safe_load(printed)
    assert [name for name in names_in(read) if not re.fullmatch("[a-z][a-z0-9_]*", name)] == []
    assert read["last"][0]["settled_at"] == "2027-01-15T07:59:30.000Z"


def test_watched_results_are_documents_of_one_stream(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a separator the second one would replace the fields of the first."""
    for evictions in (1, 2):
        entries = (an_entry(f"web-{number}", settled_at=NOW - 30, recovered_at=NOW) for number in range(evictions))
        status = ledger_status(a_ledger(*entries), Limits(), NOW)
        print_result(status, lambda *_: None, output="yaml", watched=True)
    assert [len(each["last"]) for each in yaml.safe_load_all(capsys.readouterr().out)] == [1, 2]


@given(st.floats(-1e6, 1e6))
def test_no_duration_is_negative(seconds: float) -> None:
    """A sample may be newer than the clock of this machine."""
    assert not duration(seconds).startswith("-")


# tables

MADE_ELSEWHERE = {"terminal.py", "tap/text.py", "demo/live_view.py"}
"""Two columns that always fold, and a view of a whole screen."""

words = st.text("abcdefghij-/0123456789%", min_size=1, max_size=12)
cells = st.lists(words, max_size=5).map(" ".join)


@given(data=st.data(), columns=st.integers(1, 9), width=st.integers(30, 120))
def test_no_table_is_wider_than_the_terminal_or_loses_a_word(data: st.DataObject, columns: int, width: int) -> None:
    """In the one renderer of all tables, whatever its cells are. No word is broken: where the longest do not fit side
    by side, each row is a block of lines.
    """
    headers = data.draw(st.lists(words, min_size=columns, max_size=columns))
    rows = data.draw(st.lists(st.lists(cells, min_size=columns, max_size=columns), max_size=4))
    made = table(*headers)
    for row in rows:
        made.add_row(*row)
    shown = printed(lambda to: to.print(made), width)

    assert all(len(line) <= width for line in shown.splitlines()), shown
    assert all(line == line.rstrip() for line in shown.splitlines()), shown
    expected = sorted(word for row in rows for cell in row for word in cell.split())
    found = shown.split()
    assert all(found.count(word) >= expected.count(word) for word in expected), shown


def test_commands_print_with_the_one_console() -> None:
    """It makes control characters visible, and ends no line with spaces where the output is read by a program."""
    root = Path(equipoise.cli.main.__file__).parent
    files = (file for file in root.rglob("*.py") if re.search(r"(?<!\w)Console\(|import print\b", file.read_text()))
    assert {str(file.relative_to(root)) for file in files} == set()


def test_commands_make_tables_with_the_one_renderer() -> None:
    """One that is made elsewhere may be cut in a narrow terminal."""
    root = Path(equipoise.cli.main.__file__).parent
    files = (file for file in root.rglob("*.py") if re.search(r"(?<!\w)Table(\.grid)?\(", file.read_text()))
    assert {str(file.relative_to(root)) for file in files} == MADE_ELSEWHERE
