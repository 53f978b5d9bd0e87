"""Opt-out annotations with an unexpected value. They protect, but their author may have meant the opposite."""

from collections.abc import Iterable, Iterator

from equipoise.contracts.eviction.protection import OPT_OUT, has_invalid_opt_out
from equipoise.contracts.kubernetes.objects import Object
from equipoise.descheduler.decisions.evaluation.snapshot import WatchedObjects

MAX_NAMED = 5


def unexpected_annotations(watched: WatchedObjects) -> str:
    """Which objects have an opt-out annotation with another value than "false"; "" when none has."""
    found = [
        f'{kind} {metadata.namespace}/{metadata.name} ("{metadata.annotations[OPT_OUT]}")'.replace(" /", " ")
        for kind, value in _annotated(watched)
        if has_invalid_opt_out(metadata := value.metadata)
    ]
    if not found:
        return ""
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    named = ", ".join(found[:MAX_NAMED])
    return f'annotation {OPT_OUT} protects whatever its value, only "false" is expected: {named}{more}'


def _annotated(watched: WatchedObjects) -> Iterator[tuple[str, Object]]:
    groups: tuple[tuple[str, Iterable[Object]], ...] = (
        ("namespace", watched.namespaces.values()),
        ("workload", watched.workloads.values()),
        ("pod", watched.pods),
    )
    for kind, values in groups:
        for value in values:
            yield kind, value
