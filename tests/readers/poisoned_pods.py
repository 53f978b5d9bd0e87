"""Pods that an API server accepts: with amounts that no machine has, and with annotations that are hard to read."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from readers.poisons import NUMBERS, OTHERS, TEXTS, places, poisoned

Change = Mapping[str, Any]
"""A part of the JSON of a pod."""

LONG = 250_000
"""Bytes of an annotation: an API server accepts 256 KiB of all of them."""

ANNOTATIONS = (
    "equipoise.dev/evict",
    "equipoise.dev/hint",
    "equipoise.dev/usage",
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "controller.kubernetes.io/pod-deletion-cost",
    "scheduling.koordinator.sh/eviction-cost",
    "descheduler.alpha.kubernetes.io/evict",
    "gang.scheduling.koordinator.sh/name",
)
MIRROR = {"kubernetes.io/config.mirror": "9" * 1_000, "kubernetes.io/config.source": "\x1b]52;c;aGFjaw==\x07"}

CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "e30", "e300")
RESOURCES = ("cpu", "memory", "ephemeral-storage", CPU, MEMORY)


def containers(*resources: Change) -> Change:
    return {
        "spec": {
            "containers": [
                {"name": f"c-{number}", "image": "fake", "resources": each} for number, each in enumerate(resources)
            ]
        }
    }


def annotated(annotations: Mapping[str, str]) -> Change:
    return {"metadata": {"annotations": dict(annotations)}}


SMALL = {"cpu": "1m", "memory": "1Mi"}

HARMLESS: Mapping[str, Change] = {
    "limit": containers({"requests": SMALL, "limits": {"memory": "9Pi"}}),
    "limits-of-cpu": containers(*[{"requests": SMALL, "limits": {"cpu": "1M"}}] * 2),
    "limits-of-memory": containers(*[{"requests": SMALL, "limits": {"memory": "8Pi"}}] * 2),
    "limits-of-batch": containers(*[{"requests": {MEMORY: "1"}, "limits": {MEMORY: "8Pi"}}] * 2),
    "digits": annotated({"karpenter.sh/do-not-disrupt": "9" * LONG}),
    "escapes": annotated({"equipoise.dev/evict": "\x1b]52;c;aGFjaw==\x07" + "\x1b[2J" * (LONG // 4 - 10)}),
    "quotes": annotated({"equipoise.dev/hint": '"\\' * (LONG // 4)}),
    "cost": annotated({"scheduling.koordinator.sh/eviction-cost": "9" * 5_000}),
    "mirror": annotated(MIRROR),
}
"""By name: a node with such a pod is measured, and a target of moves, as without it."""

UNKNOWN: Mapping[str, Change] = {
    "infinite": containers({"requests": {"cpu": "1e308"}}),
    "sum": containers(*[{"requests": {"cpu": "6e305"}}] * 2),
    "sum-of-memory": containers(*[{"requests": {"memory": "6Pi"}}] * 2),
    "exa": containers({"requests": {"cpu": "10E", "memory": "7E"}}),
    "largest": containers({"requests": {"cpu": "9223372036854775807"}}),
    "batch": containers({"requests": {CPU: "1e300"}, "limits": {CPU: "1e300"}}),
}
"""By name: nothing is known of its node as a target, and the pod is named."""


def generated_pods(generator: random.Random, count: int) -> Iterator[tuple[str, Change]]:
    """Names, and random amounts and annotations. An API server accepts most of them."""
    for number in range(count):
        resources = [_resources(generator) for _ in range(generator.randint(1, 3))]
        annotations = {
            generator.choice(ANNOTATIONS): _text(generator)[: LONG // 3] for _ in range(generator.randint(0, 2))
        }
        yield f"generated-{number}", {**containers(*resources), **annotated(annotations)}


def generated(generator: random.Random, document: Any, count: int, keep: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """JSON texts of a document, each with something random in one of its parts. Those of `keep` are as they were."""
    kept = {path[:length] for path in keep for length in range(len(path) + 1)}
    parts = [path for path in places(document) if path not in kept]
    for _ in range(count if parts else 0):
        yield poisoned(document, generator.choice(parts), generator.choice((*NUMBERS, *TEXTS, *OTHERS)))


def _resources(generator: random.Random) -> Change:
    amounts = {
        name: f"{generator.randint(1, 10 ** generator.randint(1, 18))}{generator.choice(SUFFIXES)}"
        for name in generator.sample(RESOURCES, generator.randint(1, 3))
    }
    fields = generator.choice((("requests",), ("limits",), ("requests", "limits")))
    return dict.fromkeys(fields, amounts)


def _text(generator: random.Random) -> str:
    if generator.random() < 0.5:
        return str(json.loads(generator.choice(TEXTS)))
    return generator.choice('9a.-"\\ \x1b,{[é') * generator.choice((1, 300, 60_000)) + generator.choice(("", "h", '"'))
