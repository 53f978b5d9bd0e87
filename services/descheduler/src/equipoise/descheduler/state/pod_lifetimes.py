"""When pods were placed and started, and which left recently: the mean of a window shows these pods only in part."""

from collections.abc import Iterator

import msgspec

from equipoise.contracts.kubernetes.objects import Pod
from equipoise.contracts.load.correction import PodLifetime
from equipoise.contracts.messages.resources import Resources

FINISHED = ("Succeeded", "Failed")


class PodTimes(msgspec.Struct, frozen=True, kw_only=True):
    """When a pod was placed on its node, and when it started."""

    placed_at: float
    running_since: float | None = None


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that left its node, with its last measured usage."""

    uid: str
    node: str
    times: PodTimes
    gone_at: float
    usage: Resources


def occupies_node(pod: Pod) -> bool:
    """Whether it is on a node and not finished."""
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def _placed_at(pod: Pod) -> float | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return condition.last_transition_time.timestamp()
    return pod.metadata.creation_timestamp.timestamp() if pod.metadata.creation_timestamp else None


class PodLifetimes:
    """Updated with every change of a pod.

    A change that is observed has the time of the observation, because the API server has whole seconds only. Pods that
    existed before have the times of the API server.
    """

    def __init__(self) -> None:
        self._times: dict[str, PodTimes] = {}
        self._departures: list[Departure] = []

    def copy(self) -> "PodLifetimes":
        """A copy that later changes do not affect."""
        copied = PodLifetimes()
        copied._times = dict(self._times)
        copied._departures = list(self._departures)
        return copied

    def on_change(self, before: Pod | None, after: Pod | None, *, usage: Resources, now: float) -> None:
        """`usage`: the pod's last measured usage."""
        if after is not None and occupies_node(after):
            self._times[after.metadata.uid] = self._updated(before, after, now)
            return
        left = after or before
        if left is None:
            return
        times = self._times.pop(left.metadata.uid, None)
        if times is not None:
            self._departures.append(
                Departure(uid=left.metadata.uid, node=left.spec.node_name, times=times, gone_at=now, usage=usage)
            )

    def _updated(self, before: Pod | None, after: Pod, now: float) -> PodTimes:
        times = self._times.get(after.metadata.uid)
        if times is None:
            observed = before is not None and not before.spec.node_name
            placed_at = None if observed else _placed_at(after)
            times = PodTimes(placed_at=now if placed_at is None else placed_at)
        if times.running_since is None and after.status.phase == "Running":
            observed = before is not None and before.status.phase != "Running"
            started = after.status.start_time
            since = now if observed or started is None else started.timestamp()
            times = msgspec.structs.replace(times, running_since=since)
        return times

    def lifetime(self, pod: Pod, usage: Resources) -> PodLifetime | None:
        """The lifetime of a pod on its node; a terminating pod counts as about to leave."""
        gone_at = float("inf") if pod.metadata.deletion_timestamp is not None else None
        return self.lifetime_of(pod.metadata.uid, usage, gone_at=gone_at)

    def lifetime_of(self, uid: str, usage: Resources, *, gone_at: float | None = None) -> PodLifetime | None:
        """The lifetime of the pod with that UID; None for a pod that is on no node."""
        times = self._times.get(uid)
        if times is None:
            return None
        return PodLifetime(placed_at=times.placed_at, running_since=times.running_since, gone_at=gone_at, usage=usage)

    def recent(self, begin: float) -> set[str]:
        """UIDs of the pods that were not running before `begin`: usually a few of thousands."""
        return {uid for uid, times in self._times.items() if times.running_since is None or times.running_since > begin}

    def settled(self, pod: Pod, begin: float) -> bool:
        """Whether it was running before `begin` and is not terminating."""
        times = self._times.get(pod.metadata.uid)
        since = times.running_since if times is not None else None
        return since is not None and since <= begin and pod.metadata.deletion_timestamp is None

    def departures(self) -> Iterator[Departure]:
        """Oldest first."""
        yield from self._departures

    def prune(self, before: float) -> None:
        """Drops departures before that time."""
        self._departures = [departure for departure in self._departures if departure.gone_at > before]
