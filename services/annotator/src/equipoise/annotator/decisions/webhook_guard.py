"""Decides whether the API server calls the webhook of hints for new pods.

A webhook that does not respond delays each pod until its timeout, and cannot remove itself. So it is removed after some
slow responses, or when nobody could measure it for a while, and restored when it has been healthy for a while.
"""

import msgspec

from equipoise.contracts.hints.webhook import NO_LONGER_CALLED

SLOW_SECONDS = 0.5
"""A new pod may wait this long for the webhook. A healthy one takes some milliseconds."""

SLOW_RESPONSES = 2
"""The number of slow responses in a row: a single one may come from a pause of the machine."""

HEALTHY_SECONDS = 60.0
"""The time for which the webhook must respond until it is called for pods, also for the first time."""

UNKNOWN_SECONDS = 30.0
"""The webhook is removed when no probe has succeeded for this long: nobody would notice that pods wait for it."""

NOT_CALLED_YET = "not called yet"
"""A new webhook, until it has been healthy for a while."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was created in a dry run, for which the API server calls the webhook."""

    seconds: float
    """The time that the webhook added to the creation."""

    responded: bool
    """The webhook has added its hint to the pod."""


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the webhook is called for new pods, and the probes on which that depends."""

    enabled: bool
    why: str
    """The time of the last change and its reason, for people."""

    slow: int = 0
    """Slow probes in a row."""

    healthy_since: float | None = None
    """The first of the last healthy probes (monotonic seconds)."""


def after_probe(calls: Calls, probe: Probe, *, now: float, at: str) -> Calls:
    """`now`: monotonic seconds. `at`: the time of the day, for people."""
    slow = calls.slow + 1 if probe.seconds >= SLOW_SECONDS else 0
    healthy = probe.responded and not slow
    since = (now if calls.healthy_since is None else calls.healthy_since) if healthy else None
    enabled, why = calls.enabled, calls.why
    if enabled and slow >= SLOW_RESPONSES:
        enabled, why = False, f"{NO_LONGER_CALLED} {at}: new pods waited {probe.seconds:.1f} s for it"
    elif not enabled and since is not None and now - since >= HEALTHY_SECONDS:
        enabled, why = True, f"called since {at}"
    return Calls(enabled=enabled, why=why, slow=slow, healthy_since=since)


def without_probe(calls: Calls, error: str, *, seconds: float, at: str) -> Calls:
    """The decision when a probe failed.

    `error`: why. `seconds`: since the last one that did not. `at`: the time of the day, for people.
    """
    enabled, why = calls.enabled, calls.why
    if enabled and seconds >= UNKNOWN_SECONDS:
        enabled, why = (
            False,
            f"{NO_LONGER_CALLED} {at}: for {seconds:.0f} s it was unknown whether it responds: {error}",
        )
    return Calls(enabled=enabled, why=why, slow=calls.slow)
