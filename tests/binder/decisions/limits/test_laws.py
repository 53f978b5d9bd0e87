"""Laws that every limit keeps, whatever it is about."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from binder.ledgers import an_entry, an_eviction
from builders import NOW, a_workload
from hypothesis import given
from hypothesis import strategies as st

from equipoise.binder.decisions.limits import EvictionsPerCluster, Limit, Limits
from equipoise.binder.state.ledger import LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry

NAMES = sorted(Limits().table)
NUMBERED = sorted(name for name, limit in Limits().table.items() if hasattr(limit, "max"))
"""Those that limit a number; the others limit times."""

Entries = tuple[LedgerEntry, ...]

_workloads = st.sampled_from([a_workload(name) for name in ("web", "db", "cache")])


def _scattered(seed: int, count: int) -> tuple[LedgerEntry, ...]:
    chance = random.Random(seed)
    entries = []
    for number in range(count):
        settled_at = NOW - chance.random() * 900
        entries.append(
            an_entry(
                f"pod-{number}",
                workload=a_workload(chance.choice(("web", "db", "cache"))),
                node=chance.choice(("node-a", "node-b")),
                namespace=chance.choice(("shop", "bank")),
                reserved_at=settled_at - chance.random() * 3,
                settled_at=None if chance.random() < 0.1 else settled_at,
                recovered_at=chance.choice((None, NOW)),
                dry_run=chance.random() < 0.1,
            )
        )
    return tuple(entries)


_entries = st.builds(_scattered, st.integers(0, 2**31), st.integers(0, 30))


_evictions = st.builds(
    an_eviction,
    workload=_workloads,
    node=st.sampled_from(["node-a", "node-b"]),
    namespace=st.sampled_from(["shop", "bank"]),
    replicas=st.integers(1, 200),
    unready=st.integers(0, 20),
    cluster_pods=st.integers(0, 5_000),
)


def _view(entries: Sequence[LedgerEntry], *, halved: bool = False) -> LedgerView:
    return LedgerView(now=NOW, entries=tuple(entries), migration_timeout=600.0, halved=halved)


def _with(name: str, maximum: Any) -> Limit:
    """The limit of this name with another number."""
    limit: Any = Limits().table[name]
    more = {"max_count": maximum} if isinstance(limit, EvictionsPerCluster) else {}
    changed: Limit = msgspec.structs.replace(limit, max=maximum, **more)
    return changed


@pytest.mark.parametrize("name", NUMBERED)
@given(entries=_entries, eviction=_evictions, kept=st.integers(0, 2**31), maximum=st.integers(0, 12))
def test_more_entries_never_turn_a_refusal_into_consent(
    name: str, entries: Entries, eviction: Any, kept: int, maximum: int
) -> None:
    some = random.Random(kept).sample(entries, kept % (len(entries) + 1))
    limit = _with(name, maximum)
    if limit.refusal(eviction, _view(some)):
        assert limit.refusal(eviction, _view(entries))


@pytest.mark.parametrize("name", NUMBERED)
@given(entries=_entries, eviction=_evictions, halved=st.booleans())
def test_zero_refuses_everything(name: str, entries: Entries, eviction: Any, halved: bool) -> None:
    """Even with an empty ledger."""
    assert _with(name, 0).refusal(eviction, _view(entries, halved=halved))


@pytest.mark.parametrize("name", NUMBERED)
@given(entries=_entries, eviction=_evictions, halved=st.booleans())
def test_unlimited_refuses_nothing(name: str, entries: Entries, eviction: Any, halved: bool) -> None:
    assert _with(name, "unlimited").refusal(eviction, _view(entries, halved=halved)) == ""


@pytest.mark.parametrize("name", NUMBERED)
@given(entries=_entries, eviction=_evictions, maximum=st.integers(1, 12))
def test_the_grace_period_is_never_looser(name: str, entries: Entries, eviction: Any, maximum: int) -> None:
    limit = _with(name, maximum)
    if limit.refusal(eviction, _view(entries)):
        assert limit.refusal(eviction, _view(entries, halved=True))


@pytest.mark.parametrize("name", NAMES)
@given(entries=_entries, eviction=_evictions)
def test_pruned_entries_would_not_have_counted(name: str, entries: Entries, eviction: Any) -> None:
    """The ledger keeps entries for as long as any limit needs them."""
    kept = [entry for entry in entries if NOW - entry.latest <= Limits().retention]
    limit = Limits().table[name]
    assert limit.refusal(eviction, _view(entries)) == limit.refusal(eviction, _view(kept))
