"""Opt-out annotations whose value somebody may have meant otherwise: they protect all the same."""

from collections.abc import Iterable, Iterator

from equipoise.contracts.eviction.protection import OPT_OUT, has_invalid_opt_out
from equipoise.contracts.kubernetes.objects import Object
from equipoise.descheduler.decisions.evaluation.cluster_builder import Watched

TOLD = 5
"""Objects that are named."""


def misread_annotations(watched: Watched) -> str:
    """ "" when every opt-out says "false", else which do not."""
    found = [
        f'{kind} {metadata.namespace}/{metadata.name} ("{metadata.annotations[OPT_OUT]}")'.replace(" /", " ")
        for kind, value in _bearers(watched)
        if has_invalid_opt_out(metadata := value.metadata)
    ]
    if not found:
        return ""
    more = f" and {len(found) - TOLD} more" if len(found) > TOLD else ""
    return f'annotation {OPT_OUT} protects whatever its value, only "false" is known: {", ".join(found[:TOLD])}{more}'


def _bearers(watched: Watched) -> Iterator[tuple[str, Object]]:
    groups: tuple[tuple[str, Iterable[Object]], ...] = (
        ("namespace", watched.namespaces.values()),
        ("workload", watched.workloads.values()),
        ("pod", watched.pods),
    )
    for kind, values in groups:
        for value in values:
            yield kind, value
