"""How even the load could be if all usage were known: with few pods moved, and with all pods placed anew."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np

from equipoise.lab.hindsight.chain_search import ChainSearch
from equipoise.lab.hindsight.first_placement import first_placement
from equipoise.lab.hindsight.placement_problem import PlacementProblem, measured_days, placement_problem
from equipoise.lab.hindsight.placement_search import EXPONENTS, PlacementSearch
from equipoise.lab.hindsight.searched_placement import SearchedPlacement
from equipoise.lab.model.load_figures import load_figures
from equipoise.lab.model.trace import Array, Trace

_PRICES = (1.0, 0.5, 0.25, 0.18, 0.12, 0.08, 0.05)
"""What a moved pod has to gain, in points of the objective in each hour."""

_PRICES_OF_EVICTIONS = (0.5, 0.18, 0.12, 0.08)
"""The same for searches without exchanges, which take longer."""

_CHAINS_PER_POD = 0.2
"""How many chains are considered for each step of other moves."""

_MOST_MOVED = 0.15
"""The share of moved pods above which no lower price is tried."""

Start = Literal["trace", "scratch"]


class HindsightRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How long to search."""

    steps: int = 2
    """Steps for each pod, with each exponent of the search."""

    seed: int = 1


class EvenPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one placement. Spreads, std and hours as in `RunFigures`."""

    start: Start
    """The placement that the search began with: that of the trace, or none."""

    moved: int | None
    """The pods that are on another node than in the trace; None: the trace has no placement."""

    exchanges: bool = True
    """Whether two pods could change places. If not, evictions can carry out the moves, in an order in which every pod
    has room."""

    peak_spread: float
    median_spread: float
    p90_spread: float
    peak_std: float
    hours_above_80: float
    hours_above_90: float
    unplaced: int


class HindsightAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one trace."""

    pods: int
    hours: int
    """The number of measured hours."""

    placements: tuple[EvenPlacement, ...]
    """The placement of the trace, if there is one, with ever more pods moved; the last one is from scratch."""

    least_peak_spread: float
    """A lower bound of the spread of any placement, see `least_spreads`."""

    least_median_spread: float
    complete: bool
    """Whether the time was enough for the whole search."""


class HindsightSearch:
    """The searches of an answer, one after the other."""

    def __init__(self, trace: Trace, request: HindsightRequest, time_left: Callable[[], bool]) -> None:
        self._problem = placement_problem(measured_days(trace))
        self._request = request
        self._time_left = time_left
        self._complete = True
        self._placements: list[EvenPlacement] = []
        self._placed = bool((self._problem.given >= 0).any())

    @property
    def rounds_at_most(self) -> int:
        """The number of values that `advance` yields at most."""
        return len(EXPONENTS) * (1 + (len(_PRICES) + len(_PRICES_OF_EVICTIONS) if self._placed else 0))

    def advance(self) -> Iterator[str]:
        """Search; yields the state of the search after each round. The search from scratch comes first, so that it
        has an answer if the time does not suffice for the others."""
        scratch = SearchedPlacement(self._problem, first_placement(self._problem))
        yield from self._search(scratch, 0.0, "placed anew")
        if self._placed:
            self._placements.append(self._figures("trace", SearchedPlacement(self._problem, self._problem.given)))
            yield from self._search_few_moves(_PRICES, exchanges=True)
            yield from self._search_few_moves(_PRICES_OF_EVICTIONS, exchanges=False)
        self._placements.append(self._figures("scratch", scratch))

    def _search_few_moves(self, prices: Sequence[float], *, exchanges: bool) -> Iterator[str]:
        for price in prices:
            placement = SearchedPlacement(self._problem, self._problem.given)
            yield from self._search(placement, price, "few moves" if exchanges else "evictions", exchanges=exchanges)
            if not self._complete:
                return
            self._placements.append(self._figures("trace", placement, exchanges=exchanges))
            if placement.moved > _MOST_MOVED * len(self._problem.workload):
                return

    def _search(
        self, placement: SearchedPlacement, price: float, title: str, *, exchanges: bool = True
    ) -> Iterator[str]:
        generator = np.random.default_rng(self._request.seed)
        nodes = placement.load.shape[0]
        for exponent in EXPONENTS:
            # A smaller exponent makes the objective larger, and its gains.
            scaled = price * nodes ** (0.5 / exponent - 0.5 / EXPONENTS[-1])
            for _ in self._steps(placement, generator, exponent=exponent, price=scaled, exchanges=exchanges):
                if not self._time_left():
                    self._complete = False
                    break
            peak, median = placement.spreads
            yield f"{title}, {placement.moved:,} pods moved, spread {peak:.0f} / {median:.0f}"

    def _steps(
        self,
        placement: SearchedPlacement,
        generator: np.random.Generator,
        *,
        exponent: int,
        price: float,
        exchanges: bool,
    ) -> Iterator[int]:
        """The steps of a search with one exponent. Without exchanges, chains follow single moves, in turn."""
        pods = len(placement.node)
        if exchanges:
            yield from PlacementSearch(placement, generator, exponent=exponent, price=price).advance(
                self._request.steps * pods
            )
            return
        for _ in range(self._request.steps):
            search = PlacementSearch(placement, generator, exponent=exponent, price=price, exchanges=False)
            yield from search.advance(pods)
            chains = ChainSearch(placement, generator, exponent=exponent, price=price)
            yield from chains.advance(round(_CHAINS_PER_POD * pods))

    def _figures(self, start: Start, placement: SearchedPlacement, *, exchanges: bool = True) -> EvenPlacement:
        figures = load_figures(placement.loads(), self._problem.base)
        return EvenPlacement(
            start=start,
            exchanges=exchanges,
            moved=placement.moved if self._placed else None,
            unplaced=placement.unplaced,
            **{name: figures[name] for name in EvenPlacement.__struct_fields__ if name in figures},
        )

    def result(self) -> HindsightAnswer:
        """The answer after the end."""
        least = least_spreads(self._problem)
        return HindsightAnswer(
            pods=len(self._problem.workload),
            hours=self._problem.cpu.shape[1],
            placements=tuple(self._placements),
            least_peak_spread=round(float(least[self._problem.peak_hour]), 2),
            least_median_spread=round(float(np.median(least)), 2),
            complete=self._complete,
        )


def least_spreads(problem: PlacementProblem) -> Array:
    """hours: a lower bound of the spread of any placement.

    Some node has the pod that loads its node most, although it is on the node that suits it best; and some node is not
    above the mean.
    """
    placed = np.unique(problem.workload)
    suited = np.where(problem.allowed[placed], problem.shares[:, 0], np.inf).min(axis=1)
    highest = (problem.cpu[placed] * np.where(np.isfinite(suited), suited, 0.0)[:, np.newaxis]).max(axis=0)
    least: Array = np.maximum(highest - problem.mean, 0.0)
    return least
