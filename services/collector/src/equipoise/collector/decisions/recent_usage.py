"""What nodes with new pods have used in the last few scrapes.

A pod is measured only once it has run in most of the shortest window. Until then its usage is expected, and that may be
far too little: the node itself shows more. See docs/decisions/0050.
"""

from collections.abc import Iterable, Mapping

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import ResourceName, Sample
from equipoise.collector.decisions.scrape_choice import Scrapes
from equipoise.collector.decisions.validation.nodes import NodeReading
from equipoise.collector.decisions.validation.usage import known_usage
from equipoise.collector.decisions.validation.window import MeasurementTarget
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory

SCRAPES = 3
"""The number of raw samples in the measured time: a mean of fewer varies with every scrape."""

MIN_SAMPLES = 2
"""The minimum number of samples: a rate needs two."""


def has_new_pods(pods: Iterable[PlacedPod], since: float) -> bool:
    """Whether one of the pods of a node began to run, or was placed, after this time."""
    return any((pod.running_since or pod.placed_at) > since for pod in pods)


def recent_length(interval: float | None, shortest: float) -> float:
    """The measured time in seconds at this scrape interval; 0 if the interval is unknown or the time is not shorter
    than the shortest window."""
    length = 0.0 if interval is None else SCRAPES * interval
    return length if length < shortest else 0.0


def recent_usage(
    targets: Mapping[str, MeasurementTarget],
    samples: Mapping[ResourceName, Iterable[Sample]],
    readings: Mapping[ResourceName, Mapping[str, NodeReading]],
    names: NodeNames,
    scrapes: Mapping[ResourceName, Scrapes],
) -> dict[str, Resources]:
    """The recent usage of these targets, by node. `readings`: those of the shortest window at the same time, from
    `scrapes`.

    Usage that is unknown in `readings` is unknown here, too: both are measured from the same series.
    """
    usage: dict[str, dict[ResourceName, float]] = {}
    for resource in RESOURCES:
        samples_of_node: dict[str, list[Sample]] = {}
        chosen = scrapes.get(resource, {})
        for sample in samples.get(resource, ()):
            node = names.of(sample.node)
            # The mean of a custom profile may have no label of its scrape.
            if not any(sample.scrape) or chosen.get(node, sample.scrape) == sample.scrape:
                samples_of_node.setdefault(node, []).append(sample)
        for node, target in targets.items():
            reading = readings.get(resource, {}).get(node)
            if reading is None or reading.mean is None:
                continue
            value = known_usage(samples_of_node.get(node, []), getattr(target.capacity, resource))
            if value is not None:
                usage.setdefault(node, {})[resource] = value
    return {node: cpu_and_memory(by_resource) for node, by_resource in usage.items()}
