"""Annotations and labels with which the owner of a pod refuses its eviction, for Equipoise or for other programs."""

from collections.abc import Callable, Mapping

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.plain_text import plain_text

OPT_OUT = "equipoise.dev/evict"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DO_NOT_EVICT = "karpenter.sh/do-not-evict"
"""The annotation of older versions of Karpenter."""

PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
DESCHEDULER_EVICT = "descheduler.alpha.kubernetes.io/evict"
EVICTION_ENABLED = "koordinator.sh/eviction-enabled"
"""A label."""

EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"

VALUE_LIMIT = 60
"""The maximum number of characters of an annotation that are quoted in a reason."""

_MAX_EVICTION_COST = str(2**31 - 1)
"""The cost with which Koordinator never evicts a pod. Source: koordinator, FilterPodWithMaxEvictionCost."""


def opted_out(candidate: Candidate, rules: Rules, now: float) -> str:
    """The annotation of the pod, an owner or its namespace that protects the pod from Equipoise; empty: none."""
    return annotated(candidate, OPT_OUT)


def annotated(candidate: Candidate, name: str) -> str:
    """The opt-out annotation of this name of the pod, an owner or its namespace, in words; empty: none.

    Any value opts out.
    """
    objects = [("pod", candidate.pod.metadata)]
    objects += [(owner.kind or "owner", owner.metadata) for owner in candidate.owners]
    if candidate.namespace is not None:
        objects.append(("namespace", candidate.namespace.metadata))
    for kind, metadata in objects:
        value = metadata.annotations.get(name)
        if value is not None:
            note = "" if value == "false" else '; any value protects, "false" is the documented one'
            return f'annotation {name}="{plain_text(value, VALUE_LIMIT)}" of {kind} {metadata.name}{note}'
    return ""


def has_invalid_opt_out(metadata: ObjectMeta) -> bool:
    """Whether the opt-out annotation has a value other than "false". It protects, too."""
    return metadata.annotations.get(OPT_OUT, "false") != "false"


_NO = frozenset({"false", "f", "0", "no", "n", "off", "never"})


def _denies(value: str) -> bool:
    return value.strip().lower() in _NO


PROTECTING: Mapping[str, Callable[[str], bool]] = {
    SAFE_TO_EVICT: _denies,
    DESCHEDULER_EVICT: _denies,
    PREFER_NO_EVICTION: lambda value: True,
    DO_NOT_EVICT: lambda value: not _denies(value),
    EVICTION_COST: lambda value: value == _MAX_EVICTION_COST,
}
"""Annotations of pods for other programs, with a function that returns whether a value forbids an eviction.

Some values request an eviction, such as `descheduler.alpha.kubernetes.io/evict: "true"`. These are ignored.
"""


def opted_out_for_others(candidate: Candidate, rules: Rules, now: float) -> str:
    """The annotation or label that protects the pod from cluster-autoscaler, Karpenter, Koordinator or
    sigs.k8s.io/descheduler; empty: none."""
    metadata = candidate.pod.metadata
    annotations = metadata.annotations
    for name, protects in PROTECTING.items() if annotations else ():  # few pods have any
        value = annotations.get(name)
        if value is not None and protects(value):
            return f'annotation {name}="{plain_text(value, VALUE_LIMIT)}"'
    enabled = metadata.labels.get(EVICTION_ENABLED)
    if enabled is not None and _denies(enabled):
        return f'label {EVICTION_ENABLED}="{enabled}"'
    value = annotations.get(DO_NOT_DISRUPT)
    if value is None or _denies(value):
        return ""
    started = candidate.pod.status.start_time
    try:
        protected = started is None or now - started.timestamp() < Duration.parse(value)
    except ValueError:
        protected = True
    return f'annotation {DO_NOT_DISRUPT}="{plain_text(value, VALUE_LIMIT)}"' if protected else ""
