"""How much a service remembers: every object that can be reached from it, without what all services share."""

import asyncio
import functools
import gc
import sys
import types
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from collector.sources_in_memory import FakeSource

from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

Path = tuple[str, ...]

_SHARED = (
    MemoryBus,
    MemoryKube,
    ManualClock,
    FakeSource,
    asyncio.AbstractEventLoop,
    asyncio.Future,
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    type,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
)


class StateSize(msgspec.Struct, frozen=True, kw_only=True):
    """Of one service."""

    bytes: int
    entries: int
    """Elements of all its containers."""

    parts: dict[str, tuple[int, int]]
    """Bytes and entries by attribute."""


def state_size(*roots: object) -> StateSize:
    """Each object counts once, for the attribute by which it is reached first."""
    seen: dict[int, object] = {}
    bytes_of: Counter[str] = Counter()
    entries_of: Counter[str] = Counter()
    waiting: list[tuple[Path, object]] = [((type(root).__name__,), root) for root in roots]
    for path, found in waiting:
        if id(found) in seen or isinstance(found, _SHARED):
            continue
        seen[id(found)] = found
        name = ".".join(path[:4])
        bytes_of[name] += found.nbytes if isinstance(found, np.ndarray) else sys.getsizeof(found)
        if isinstance(found, dict | list | set | frozenset | tuple) or hasattr(found, "popleft"):
            entries_of[name] += len(found)  # type: ignore[arg-type]
        waiting += [((*path, part) if part else path, each) for part, each in _parts(found)]
    return StateSize(
        bytes=sum(bytes_of.values()),
        entries=sum(entries_of.values()),
        parts={name: (size, entries_of[name]) for name, size in bytes_of.items()},
    )


def _parts(found: Any) -> Iterable[tuple[str, object]]:
    if isinstance(found, str | bytes | int | float | np.ndarray):
        return
    if isinstance(found, msgspec.Struct):
        yield from ((name, getattr(found, name)) for name in found.__struct_fields__)
    elif isinstance(found, types.FunctionType):
        yield from (("", cell.cell_contents) for cell in found.__closure__ or () if _is_filled(cell))
    elif isinstance(found, functools.partial):
        yield from (("", each) for each in (found.func, *found.args, *found.keywords.values()))
    elif hasattr(found, "__dict__"):
        yield from vars(found).items()
        yield from (("", each) for each in gc.get_referents(found) if each is not vars(found))
    else:
        yield from (("", each) for each in gc.get_referents(found))


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
