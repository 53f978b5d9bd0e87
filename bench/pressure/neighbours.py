"""The neighbours of the server in one state of the node, drawn at random."""

import random
from typing import Literal

import msgspec

Kind = Literal["idle", "polite", "equal", "greedy", "throttled", "writer", "reader"]

SHARES: dict[Kind, int] = {
    "polite": 2, "equal": 512, "greedy": 1_024, "throttled": 512, "writer": 256, "reader": 256,
}  # fmt: skip
"""`cpu.shares` as a kubelet sets them: 1024 for each core that is requested, 2 without a request."""

SERVER_SHARES = 512
QUOTA = 20_000
"""Microseconds of each 100 ms for throttled pods: a CPU limit of 200m."""


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: Kind
    busy: float = 1.0
    """The share of the time in which it uses a core if it gets it."""


def drawn_states(count: int, cores: int, seed: int) -> list[list[Neighbour]]:
    """The neighbours of each state: one or two kinds at a time, up to twice as many burners as cores."""
    chance = random.Random(seed)
    mixes: list[tuple[Kind, ...]] = [
        ("idle",), ("polite",), ("equal",), ("greedy",), ("throttled",), ("writer",), ("reader",),
        ("polite", "writer"), ("equal", "reader"), ("throttled", "polite"), ("greedy", "writer"),
    ]  # fmt: skip
    states = []
    for number in range(count):
        state: list[Neighbour] = []
        for kind in mixes[number % len(mixes)]:
            many = 0 if kind == "idle" else chance.randint(1, 2 if kind in ("writer", "reader") else 2 * cores)
            busy = chance.choice([0.3, 0.6, 1.0])
            state += [Neighbour(name=f"{kind}-{place}", kind=kind, busy=busy) for place in range(many)]
        states.append(state)
    chance.shuffle(states)
    return states
