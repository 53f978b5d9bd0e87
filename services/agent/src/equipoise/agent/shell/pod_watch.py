"""Keeps the pods of the node up to date, in a thread of its own."""

from collections.abc import Callable
from threading import Event, Thread

from equipoise.agent.decisions.band_pods import band_pod
from equipoise.agent.shell.api_server import AgentApi, PodEvent, RequestFailed
from equipoise.agent.state.watched_pods import BandPod, WatchedPods
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.plain_text import plain_text
from equipoise.contracts.unreadable.known_amounts import with_known_amounts
from equipoise.contracts.unreadable.lenient_decoding import DECODE_ERRORS, read_object

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before the next attempt; doubled after each failure."""

_MOST_UNREADABLE = 200
"""The number of unreadable pods whose descriptions are kept."""


class PodWatch:
    """Lists the pods and watches them until it is stopped. The last pods are kept while the API server does not
    answer."""

    def __init__(
        self,
        api: AgentApi,
        node: str,
        pods: WatchedPods,
        *,
        monotonic: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        """`jitter`: returns 0..1. It varies the pauses: all agents of a cluster lose their watch at the same moment
        when an API server ends.
        """
        self._api = api
        self._node = node
        self._pods = pods
        self._monotonic = monotonic
        self._jitter = jitter
        self._stop = Event()
        self.received_at: float | None = None
        self.problem: str | None = None
        self._unreadable: dict[tuple[str, str], str] = {}
        """The description of an unreadable pod, by its namespace and name."""

        self._thread = Thread(target=self._run, name="pods", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The thread ends with its present request at the latest."""
        self._stop.set()
        self._api.end_watch()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stop.is_set():
            try:
                self._follow()
                pause = FIRST_PAUSE
            except (RequestFailed, *DECODE_ERRORS) as error:
                self.problem = f"the pods of node {self._node} are not received: {error}"
                # The connection worked until a moment ago, so this is the first failure.
                if self.received_at is not None and self._monotonic() - self.received_at < pause:
                    pause = FIRST_PAUSE
                self._stop.wait(pause * (0.5 + self._jitter()))
                pause = min(pause * 2, LONGEST_PAUSE)

    def _follow(self) -> None:
        """Lists the pods once, and watches them from that version on until a watch fails."""
        self._unreadable = {}
        listed: list[BandPod] = []

        def read(pod: Pod) -> None:
            if (in_band := self._read(pod)) is not None:
                listed.append(in_band)

        version = self._api.list_pods(self._node, read)
        self._pods.replace(listed)
        while not self._stop.is_set():
            self._received()
            for event in self._api.watch_pods(self._node, version):
                version = self._handle(event, version)
                self._received()

    def _received(self) -> None:
        self.received_at = self._monotonic()
        self.problem = None

    def _handle(self, event: PodEvent, version: str) -> str:
        """Applies an event and returns the version of its object. Raises RequestFailed for an error event: the version
        may be too old.
        """
        if event.type == "ERROR":
            raise RequestFailed(0, f"the watch ended: {bytes(event.object).decode(errors='replace')[:200]}")
        pod = read_object(event.object, Pod)
        if event.type == "BOOKMARK":
            return pod.metadata.resource_version
        if event.type == "DELETED":
            self._unreadable.pop(_key(pod), None)
            in_band = None
        else:
            in_band = self._read(pod)
        if in_band is None:
            self._pods.remove(pod.metadata.uid)
        else:
            self._pods.put(in_band)
        return pod.metadata.resource_version or version

    def _read(self, pod: Pod) -> BandPod | None:
        """The pod if it belongs to a band; None if it does not, or if it cannot be read and is listed as unreadable."""
        try:
            pod = with_known_amounts(pod)
            in_band = band_pod(pod)
            reason = pod.metadata.unreadable
        except Exception as error:  # whatever it is, the other pods are followed
            in_band, reason = None, f"{type(error).__name__}: {error}"
        if reason:
            if len(self._unreadable) < _MOST_UNREADABLE:
                self._unreadable[_key(pod)] = plain_text(f"{'/'.join(_key(pod))} ({reason})", 300)
        else:
            self._unreadable.pop(_key(pod), None)
        return in_band

    @property
    def unreadable(self) -> list[str]:
        """The pods that cannot be read, and why. The agent does not change their cgroups. Another thread reads this
        list."""
        return list(self._unreadable.values())


def unreadable_text(pods: list[str]) -> str | None:
    """The problem to report, worded as in other services; None if all pods can be read."""
    more = f", and {len(pods) - 3} more" if len(pods) > 3 else ""
    return f"pods: {len(pods)} cannot be read: {', '.join(pods[:3])}{more}" if pods else None


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
