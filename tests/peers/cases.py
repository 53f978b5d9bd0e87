"""The numeric cases of the systems that Equipoise is compared with, and the table of deliberate differences.

`tests/data/peers` holds every case; its files say where they come from. A test takes the cases of a feature with
`peer_cases`, calls the product and hands what it found to `Case.check`. docs/peers.md lists the values that differ and
the cases whose feature does not exist.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "peers"
TABLES = ROOT / "docs" / "peers.md"

Inputs = dict[str, Any]

Rounding = Literal["exact", "nearest", "down", "down twice"]
"""How the peer rounds the value that the product leaves as it is."""


class Difference(NamedTuple):
    """A value that the product deliberately has otherwise."""

    published: object
    ours: object


class Tables(NamedTuple):
    """What docs/peers.md lists."""

    differences: Mapping[tuple[str, str], Difference]
    """By id of the case and name of the value."""

    not_compared: frozenset[tuple[str, str]]
    """Id of the case and name of a value that the product does not have."""

    not_built: frozenset[str]
    """Ids of cases whose feature does not exist."""


class Case:
    """One case of a peer."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.id: str = document["id"]
        self.feature: str = document["feature"]
        self.inputs: Inputs = document["inputs"]
        self.test: str = document.get("test", "")
        """The peer's own test."""

        self.expected: Inputs = document["expected"]
        self.checked = False

    def __repr__(self) -> str:
        return self.id

    def check(
        self, *, rounding: Rounding = "exact", within: float = 1e-6, without: Sequence[str] = (), **found: object
    ) -> None:
        """Compares every published value with the one found, or with ours where docs/peers.md lists a difference.

        `within`: how far numbers may be apart; `rounding` applies to published values only. `without`: values that
        another test of the case compares.
        """
        self.checked = True
        skipped = {(self.id, name) for name in without} | read_tables().not_compared
        names = [name for name in self.expected if (self.id, name) not in skipped]
        faults = [self._fault(name, found, rounding, within) for name in names]

        assert not any(faults), f"{self.id}: " + "; ".join(filter(None, faults))

    def _fault(self, name: str, found: Mapping[str, object], rounding: Rounding, within: float) -> str:
        """ "" when the value is as published or as listed, else what is wrong."""
        published = self.expected[name]
        if name not in found:
            return f"nothing to compare with {name}"
        text = f"{name} {json.dumps(published)} published, {json.dumps(found[name], default=repr)} found"
        difference = read_tables().differences.get((self.id, name))
        agrees = same(found[name], published, rounding, within)
        if difference is None:
            return "" if agrees else text
        if difference.published != published:
            return f"docs/peers.md has another published value of {name}"
        if agrees:
            return f"{name} agrees, and docs/peers.md lists a difference"
        return "" if same(found[name], difference.ours, "exact", 0.005) else f"{text}, not as in docs/peers.md"


def same(found: object, expected: object, rounding: Rounding, within: float) -> bool:
    """Whether two values, or all of two lists or mappings, are the same number or equal."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return found.keys() == expected.keys() and all(
            same(found[key], value, rounding, within) for key, value in expected.items()
        )
    if isinstance(expected, list | tuple) and isinstance(found, Sequence) and not isinstance(found, str):
        return len(found) == len(expected) and all(
            same(mine, theirs, rounding, within) for mine, theirs in zip(found, expected, strict=True)
        )
    if isinstance(expected, bool) or isinstance(found, bool) or not isinstance(expected, int | float):
        return bool(found == expected)
    if not isinstance(found, int | float) or math.isnan(found):
        return False
    above = found - expected
    slack = within + 1e-9 * abs(expected)
    match rounding:
        case "exact":
            return abs(above) <= slack
        case "nearest":
            return abs(above) <= 0.5 + slack
        case "down":
            return -slack <= above < 1
        case "down twice":
            return -slack <= above < 2


def every_case() -> dict[str, Case]:
    """All cases, by id."""
    documents = [json.loads(path.read_text())["cases"] for path in sorted(DATA.glob("*.json"))]
    return {document["id"]: Case(document) for cases in documents for document in cases}


_CASES = every_case()

TAKEN: set[str] = set()
"""Ids of the cases that some test takes."""


def peer_cases(*features: str, where: Callable[[Case], bool] = lambda case: True) -> pytest.MarkDecorator:
    """Runs a test with every case of these features that docs/peers.md does not list as not built."""
    not_built = read_tables().not_built
    found = [case for case in _CASES.values() if case.feature in features and case.id not in not_built and where(case)]
    assert found, f"there are no cases of {', '.join(features)}"
    TAKEN.update(case.id for case in found)
    return pytest.mark.parametrize("case", found, ids=[case.id for case in found])


def read_tables() -> Tables:
    """docs/peers.md, read once."""
    if not _TABLES:
        _TABLES.append(_read_tables(TABLES.read_text()))
    return _TABLES[0]


_TABLES: list[Tables] = []


def _read_tables(text: str) -> Tables:
    differences: dict[tuple[str, str], Difference] = {}
    for case, value, published, ours, _ in _rows(text, "Different values"):
        (name,) = _codes(value)
        for identifier in _codes(case):
            differences[identifier, name] = Difference(_json(published), _json(ours))
    not_compared = {
        (identifier, name)
        for cases, values, _ in _rows(text, "Values that are not compared")
        for identifier in _ids(cases)
        for name in _codes(values)
    }
    not_built = {identifier for cases, _ in _rows(text, "Not built") for identifier in _ids(cases)}
    return Tables(differences, frozenset(not_compared), frozenset(not_built))


def _rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def _codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _json(cell: str) -> object:
    (text,) = _codes(cell)
    return json.loads(text)


def _ids(cell: str) -> Iterable[str]:
    """The ids in a cell; `feature.name` (all N) stands for all cases of a feature."""
    for name, number in re.findall(r"`([^`]+)`(?: \(all (\d+)\))?", cell):
        if not number:
            assert name in _CASES, f"docs/peers.md lists {name}, which is not a case"
            yield name
            continue
        found = [case.id for case in _CASES.values() if case.feature == name]
        assert len(found) == int(number), f"{name} has {len(found)} cases, not {number} as in docs/peers.md"
        yield from found
