"""The times at which Services had fewer ready endpoints than wanted, from all writes of their EndpointSlices."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from equipoise.testbed.audit import WrittenSlice


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A time in which a Service had fewer ready endpoints than wanted. `since` and `until`: Unix seconds."""

    service: str
    """`namespace/name`."""
    since: float
    until: float
    fewest: int
    """The smallest number of ready endpoints in this time."""

    @property
    def seconds(self) -> float:
        return self.until - self.since


@dataclass(frozen=True, kw_only=True)
class ReadyEndpoints:
    """How Services kept their ready endpoints."""

    complete: frozenset[str]
    """The Services that had all wanted endpoints at some time. The others have no shortage."""
    shortages: tuple[Shortage, ...]
    """All shortages, ordered by their begin. Even one that ends within the same millisecond is in the list."""

    @property
    def seconds(self) -> float:
        """The total length of the shortages."""
        return sum(shortage.seconds for shortage in self.shortages)


def ready_endpoints(slices: Iterable[WrittenSlice], wanted: Mapping[str, int], until: float) -> ReadyEndpoints:
    """The shortages of each Service, after it was complete for the first time.

    `slices`: all written ones, ordered by time. `wanted`: the number of ready endpoints by Service, above 0. `until`:
    the Unix time at which a shortage that lasts is cut.
    """
    ready: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    open_shortages: dict[str, Shortage] = {}
    complete: set[str] = set()
    shortages: list[Shortage] = []
    for written in slices:
        service, at = written.service, written.time.timestamp()
        if service not in wanted or at > until:
            continue
        ready[service][written.name] = written.ready
        number = len(frozenset().union(*ready[service].values()))
        if number >= wanted[service]:
            complete.add(service)
            if (shortage := open_shortages.pop(service, None)) is not None:
                shortages.append(_shortage(service, shortage.since, at, shortage.fewest))
        elif service in complete:
            shortage = open_shortages.get(service)
            since, fewest = (at, number) if shortage is None else (shortage.since, min(shortage.fewest, number))
            open_shortages[service] = _shortage(service, since, at, fewest)
    shortages += (_shortage(each.service, each.since, until, each.fewest) for each in open_shortages.values())
    return ReadyEndpoints(
        complete=frozenset(complete), shortages=tuple(sorted(shortages, key=lambda shortage: shortage.since))
    )


def _shortage(service: str, since: float, until: float, fewest: int) -> Shortage:
    return Shortage(service=service, since=since, until=until, fewest=fewest)
