"""Which hints the workloads of a namespace share."""

import msgspec
import numpy as np
from scorer.hinted import SETTINGS

from equipoise.contracts.numeric import Rows, Singles
from equipoise.scorer.decisions.placement_hints.selection import Selection, no_nodes, select
from equipoise.scorer.state.placement_hints.offered_hints import OfferedHint, OfferedHints

NODES = 12
ALL = np.ones(NODES, np.bool_)
ONE_POINT = msgspec.structs.replace(SETTINGS, min_change=1.0)
NONE = no_nodes(1)


def points(losing: float) -> Singles:
    """The points of a workload that loses this many if it prefers the last three nodes instead of the three before."""
    return np.repeat([10.0, 11.0, 90.0, 90.0 - losing], 3).astype(np.float32)


FIRST, OTHER = points(-10.0), points(80.0)
"""The points of two workloads that are best on the last three nodes, and on the three before."""


class Namespace:
    """One update of the hints of a namespace."""

    def __init__(self, *, name_bytes: int = 40, sharing: bool = True) -> None:
        names: Rows = np.full(NODES, name_bytes, np.intp)
        self._offered = OfferedHints({"shop": 30_000} if sharing else {}, names, ONE_POINT)

    def choose(self, points: Singles, before: Selection = NONE, own: Selection | None = None) -> OfferedHint:
        own = own or select(points[np.newaxis], ALL[np.newaxis], ONE_POINT)
        return self._offered.choose("shop", own, before, points, ALL)


def test_alike_workloads_share_a_hint() -> None:
    """One that would lose more than min_change has its own."""
    namespace = Namespace()
    first = namespace.choose(FIRST)

    assert namespace.choose(points(0.9)) is first
    assert namespace.choose(points(1.1)) is not first


def test_workloads_of_other_namespaces_have_their_own_hints() -> None:
    namespace = Namespace(sharing=False)

    assert namespace.choose(FIRST) is not namespace.choose(FIRST)


def test_a_workload_without_preferred_nodes_shares_no_hint() -> None:
    """It gets none."""
    namespace = Namespace()
    namespace.choose(FIRST)

    assert NONE is namespace.choose(FIRST, own=NONE).selection


def test_without_space_a_workload_uses_the_best_hint() -> None:
    """However much it loses."""
    namespace = Namespace(name_bytes=3_000)
    first, other = namespace.choose(FIRST), namespace.choose(OTHER)

    assert first is not other
    assert namespace.choose(np.repeat([10.0, 90.0, 40.0, 30.0], 3).astype(np.float32)) is other


def test_a_workload_stays_with_those_that_it_shared_a_hint_with() -> None:
    """Also where it loses somewhat more than min_change."""
    before = Namespace().choose(FIRST).selection
    namespace = Namespace()
    offer = namespace.choose(FIRST, before)

    assert namespace.choose(points(1.9), before) is offer
    assert namespace.choose(points(2.1), before) is not offer


def test_workloads_that_shared_a_hint_share_the_one_that_comes_after_it() -> None:
    """Another offer may be somewhat better for some of them."""
    before = Namespace().choose(FIRST).selection
    namespace = Namespace()
    namespace.choose(points(10.0))
    offer = namespace.choose(FIRST, before)

    assert namespace.choose(points(0.5), before) is offer


def test_the_first_of_some_workloads_joins_others_only_where_it_loses_hardly_anything() -> None:
    """Those that shared its hint would follow, and the object would be written again."""
    before = Namespace().choose(OTHER).selection
    namespace = Namespace()
    offer = namespace.choose(FIRST)

    assert namespace.choose(points(0.6)) is offer
    assert namespace.choose(points(0.4), before) is offer
    assert namespace.choose(points(0.6), before) is not offer
