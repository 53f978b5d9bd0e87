"""Decides which hints are published, and when. The hints of a namespace are published when they change, and again
before they are outdated.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec
from msgspec.structs import astuple

from equipoise.contracts.hints.shared_hints import DividedHints, divided_hints
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import PlacementHints, WorkloadHint, hint_key
from equipoise.contracts.recent import is_recent

REPEAT_PERIOD = 45.0
"""Seconds after which hints are published again without a change: a message is replaced before it is a minute old."""

MAX_BYTES = 700_000
"""The maximum size of the hints in one message, which must stay below 1 MiB. An object in the API server holds far
less."""

_BYTES_BESIDE_KEY = 8
"""The colon and the comma after a key, and the index of a shared hint."""


class HintPublication:
    """The hints that this replica published last, by namespace. Times are arguments."""

    def __init__(self) -> None:
        self._published: dict[str, PlacementHints] = {}

    def due(
        self,
        hints: Mapping[Workload, WorkloadHint],
        is_own: Callable[[str], bool],
        now: float,
        replacing: Collection[str] = (),
    ) -> Iterator[PlacementHints | None]:
        """The message to publish of each namespace, or None. A namespace whose hints are gone gets one without hints.

        `hints`: all hints, the most important first; `is_own`: whether this replica publishes the hints of a namespace;
        `replacing`: namespaces with evictions.
        """
        by_namespace: dict[str, dict[str, WorkloadHint]] = {}
        for workload, hint in hints.items():
            # Two workloads of a namespace have the same key if only their API groups differ: the first one counts.
            by_namespace.setdefault(workload.namespace, {}).setdefault(hint_key(workload), hint)
        self._published = {name: message for name, message in self._published.items() if is_own(name)}
        for namespace in {**by_namespace, **self._published}:
            current, before = _limited(by_namespace.get(namespace, {})), self._published.get(namespace)
            is_current = (
                before is not None
                and (before.hints, before.shared, before.workloads) == astuple(current)
                and is_recent(before.computed_at, now, REPEAT_PERIOD)
            )
            if is_current or not is_own(namespace):
                yield None
            else:
                yield PlacementHints(
                    namespace=namespace,
                    computed_at=now,
                    hints=current.hints,
                    shared=current.shared,
                    workloads=current.workloads,
                    replacing=namespace in replacing,
                )

    def on_published(self, message: PlacementHints) -> None:
        """Records a message that the bus accepted. A message that was lost is due again."""
        if message.hints or message.workloads:
            self._published[message.namespace] = message
        else:
            self._published.pop(message.namespace, None)


def _limited(hints: Mapping[str, WorkloadHint]) -> DividedHints:
    """The first hints, as many as one message holds."""
    size, fitting = 0, dict[str, WorkloadHint]()
    counted = set[WorkloadHint]()
    for key, hint in hints.items():
        size += len(msgspec.json.encode(key)) + _BYTES_BESIDE_KEY
        if hint not in counted:
            counted.add(hint)
            size += len(msgspec.json.encode(hint))
        if size > MAX_BYTES:
            break
        fitting[key] = hint
    return divided_hints(fitting)
