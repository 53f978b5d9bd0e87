"""Since when pods run where they run, and which left a short while ago: what a window's mean does not show yet."""

from collections.abc import Iterator

import msgspec

from equipoise.contracts.kubernetes.objects import Pod
from equipoise.contracts.load.correction import PodLifetime
from equipoise.contracts.messages.resources import Resources

FINISHED = ("Succeeded", "Failed")


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """When a pod came to its node and when it ran."""

    placed_at: float
    running_since: float | None = None


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that left its node, and what it used there last."""

    uid: str
    node: str
    times: Times
    gone_at: float
    usage: Resources


def takes_room(pod: Pod) -> bool:
    """Is it on a node, and not finished?"""
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def _placed_at(pod: Pod) -> float | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return condition.last_transition_time.timestamp()
    return pod.metadata.creation_timestamp.timestamp() if pod.metadata.creation_timestamp else None


class PodStays:
    """Follows pods as they come, run and go.

    What happens before our eyes has the time it was seen at: the API server tells whole seconds only. For what was
    there before, its word is all there is.
    """

    def __init__(self) -> None:
        self._times: dict[str, Times] = {}
        self._departures: list[Departure] = []

    def copy(self) -> "PodStays":
        """As they are now: what changes later does not change it."""
        copied = PodStays()
        copied._times = dict(self._times)
        copied._departures = list(self._departures)
        return copied

    def changed(self, before: Pod | None, after: Pod | None, *, usage: Resources, now: float) -> None:
        """Take in a change of the pods; `usage`: what the pod was measured to use last."""
        if after is not None and takes_room(after):
            self._times[after.metadata.uid] = self._arrived(before, after, now)
            return
        left = after or before
        if left is None:
            return
        times = self._times.pop(left.metadata.uid, None)
        if times is not None:
            self._departures.append(
                Departure(uid=left.metadata.uid, node=left.spec.node_name, times=times, gone_at=now, usage=usage)
            )

    def _arrived(self, before: Pod | None, after: Pod, now: float) -> Times:
        times = self._times.get(after.metadata.uid)
        if times is None:
            seen_waiting = before is not None and not before.spec.node_name
            placed_at = None if seen_waiting else _placed_at(after)
            times = Times(placed_at=now if placed_at is None else placed_at)
        if times.running_since is None and after.status.phase == "Running":
            seen_starting = before is not None and before.status.phase != "Running"
            told = after.status.start_time
            since = now if seen_starting or told is None else told.timestamp()
            times = msgspec.structs.replace(times, running_since=since)
        return times

    def stay(self, pod: Pod, usage: Resources) -> PodLifetime | None:
        """The stay of a pod on its node; one that is terminating counts as about to leave."""
        gone_at = float("inf") if pod.metadata.deletion_timestamp is not None else None
        return self.stay_of(pod.metadata.uid, usage, gone_at=gone_at)

    def stay_of(self, uid: str, usage: Resources, *, gone_at: float | None = None) -> PodLifetime | None:
        """The stay of the pod of that UID; None for one that is on no node."""
        times = self._times.get(uid)
        if times is None:
            return None
        return PodLifetime(placed_at=times.placed_at, running_since=times.running_since, gone_at=gone_at, usage=usage)

    def recent(self, begin: float) -> set[str]:
        """UIDs of the pods that did not run since before `begin`: of thousands mostly a few."""
        return {uid for uid, times in self._times.items() if times.running_since is None or times.running_since > begin}

    def settled(self, pod: Pod, begin: float) -> bool:
        """Does it run since before `begin`, and is it going to stay?"""
        times = self._times.get(pod.metadata.uid)
        since = times.running_since if times is not None else None
        return since is not None and since <= begin and pod.metadata.deletion_timestamp is None

    def departures(self) -> Iterator[Departure]:
        """Those that are not forgotten yet, oldest first."""
        yield from self._departures

    def forget(self, before: float) -> None:
        """Drops departures before that time."""
        self._departures = [departure for departure in self._departures if departure.gone_at > before]
