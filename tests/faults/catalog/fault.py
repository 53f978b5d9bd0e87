"""A fault: what it breaks, how long a run takes, and which faults of the plan it covers."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from faults.history import History
from faults.invariants import MinimumTraffic
from faults.rig import Rig


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, and the minimum traffic of a conclusive run."""

    name: str
    what: str
    covers: tuple[int, ...]
    """Numbers of the plan in docs/reliability.md: 6 is F6."""

    run: Callable[[Rig, "Extent"], Awaitable[None]]
    minimum: MinimumTraffic
    also: Callable[[History], list[str]] | None = None
    """An additional check for this fault."""

    why_not: Callable[[], str] | None = None
    """Why this machine cannot have the fault; "" when it can."""

    nats_servers: Literal[1, 3] = 1
    """With 3, `rig.nats`: a NATS cluster that starts with empty streams of three replicas."""


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run; `make test` uses the short one."""

    times: int = 4
    """Kills, restarts, storms."""

    stopped: float = 30.0
    """Seconds for which the API server is suspended."""

    nats_down: tuple[float, ...] = (5.0, 60.0)
    """Seconds for which nats-server is killed, one time after the other."""

    half_open: float = 100.0
    """Seconds of half-open watches: more than a reflector waits for."""

    evictions: int = 12
    """Evictions before and after."""


SHORT = Extent(times=1, stopped=5.0, nats_down=(5.0,), half_open=4.0, evictions=4)
LONG = Extent()


def fault(
    run: Callable[[Rig, Extent], Awaitable[None]],
    *covers: int,
    intents: int,
    evictions: int,
    scored: int = 0,
    **more: Any,
) -> Fault:
    """Named and described by its function."""
    return Fault(
        name=run.__name__,
        what=" ".join((run.__doc__ or "").split()),
        covers=covers,
        run=run,
        minimum=MinimumTraffic(intents=intents, evictions=evictions, scored=scored),
        **more,
    )
