"""No case of a peer is forgotten: a test compares it, or docs/peers.md lists it with the reason."""

import importlib
from pathlib import Path

import pytest
from peers.cases import TAKEN, Case, every_case, read_tables

for path in sorted(Path(__file__).parent.glob("test_*.py")):
    if path != Path(__file__):
        importlib.import_module(f"peers.{path.stem}")

CASES = every_case()


def test_every_case_is_compared_or_listed() -> None:
    """A case of the files that no test takes, and that is not listed as not built, fails here."""
    assert set() == CASES.keys() - TAKEN - read_tables().not_built
    assert set() == TAKEN & read_tables().not_built


def test_there_are_as_many_cases_as_the_peers_have() -> None:
    """An id stands for one case only. Those of rules.json are computed by published formulas."""
    derived = {identifier for identifier in CASES if identifier.startswith("rule-")}

    assert len(CASES.keys() - derived) == 369
    assert len(derived) == 17


def test_every_listed_difference_is_one_of_a_case() -> None:
    """docs/peers.md lists no value that no case has, and no value twice."""
    tables = read_tables()
    for identifier, name in tables.differences.keys() | tables.not_compared:
        assert name in CASES[identifier].expected
        assert identifier in TAKEN
    assert not tables.differences.keys() & tables.not_compared


def a_case(**expected: object) -> Case:
    return Case({"id": "x", "feature": "y", "inputs": {}, "expected": expected})


def test_a_value_that_is_not_compared_fails() -> None:
    """Every published value of a case needs one that was found."""
    with pytest.raises(AssertionError, match="nothing to compare with second"):
        a_case(first=1, second=2).check(first=1)


@pytest.mark.parametrize(
    ("published", "found"),
    [(1, 1.01), (1, None), (1, float("nan")), (True, 1.5), ([1, 2], [1]), ({"a": 1}, {"b": 1}), (None, 0), ("a", "b")],
)
def test_another_value_fails(published: object, found: object) -> None:
    """Numbers, lists, mappings and texts are compared; unknown is not 0."""
    with pytest.raises(AssertionError, match="published"):
        a_case(value=published).check(value=found)


@pytest.mark.parametrize(
    ("rounding", "found", "agrees"),
    [
        ("nearest", 57.5, True),
        ("nearest", 57.6, False),
        ("down", 57.9, True),
        ("down", 58.0, False),
        ("down", 56.9, False),
        ("down twice", 58.9, True),
        ("down twice", 59.0, False),
    ],
)
def test_a_peer_may_round(rounding: str, found: float, agrees: bool) -> None:
    """To the nearest integer, or down once or twice."""
    case = a_case(value=57)
    if agrees:
        case.check(rounding=rounding, value=found)  # type: ignore[arg-type]
    else:
        with pytest.raises(AssertionError):
            case.check(rounding=rounding, value=found)  # type: ignore[arg-type]
