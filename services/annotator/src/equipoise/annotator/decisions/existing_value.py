"""The value that an object already has: written by another replica, or by this one before a restart."""

from collections.abc import Mapping

import msgspec

from equipoise.annotator.decisions.annotation_target import AnnotationTarget
from equipoise.annotator.decisions.write_decision import WrittenValue
from equipoise.contracts.bounds import CLOCK_TOLERANCE
from equipoise.contracts.kubernetes.annotations import means, read_annotation

MAX_VERSION_AGE = 2.0
"""Seconds for which a resource version is likely to be current: a kubelet updates its node every 10 s at most."""


def existing_value(target: AnnotationTarget, annotations: Mapping[str, str], now: float) -> WrittenValue | None:
    """The value that an object has, as if it was written when it was sampled. None if there is no valid value.

    The real time of the write is unknown, usually seconds later. If a later time was assumed, a change could stay
    unwritten for up to 98 s after its writer was lost.
    """
    value, _ = read_annotation(annotations, target.annotation)
    if value is None or value.sampled_at.timestamp() > now + CLOCK_TOLERANCE:
        return None
    sampled_at = value.sampled_at.timestamp()
    return WrittenValue(at=sampled_at, sampled_at=sampled_at, means=means(value))


class Precondition(msgspec.Struct, frozen=True, kw_only=True):
    """What must hold for a write: the object has this version, or still has our value."""

    uid: str
    version: str = ""
    """resourceVersion: the object was not changed since, not even by a kubelet."""

    value: Mapping[str, str] = {}
    """Our annotation of the object."""

    read_at: float = 0.0
    """The time at which the version was read (monotonic seconds)."""

    def is_current(self, now: float) -> bool:
        """Whether the precondition is likely to hold. A version is soon outdated, because it changes often; a value is
        not."""
        return not self.version or now - self.read_at <= MAX_VERSION_AGE


def value_precondition(target: AnnotationTarget, uid: str, annotations: Mapping[str, str]) -> Precondition | None:
    """The precondition that the object still has this annotation of ours; None when it has none."""
    value = annotations.get(target.annotation)
    return None if value is None else Precondition(uid=uid, value={target.annotation: value})
