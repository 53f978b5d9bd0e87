"""Memory of the agent, whatever pods are on its node. Its limit is 128 MiB."""

from large_objects import MIB, filled, in_a_child, large_objects

AGENT = """
import json, sys, http.client
from threading import Event
from equipoise.agent.shell.api_server import AgentApi
from equipoise.agent.shell.pod_watch import PodWatch
from equipoise.agent.state.watched_pods import WatchedPods

class PlainApi(AgentApi):
    def __init__(self):
        self._host, self._port, self._agent = "127.0.0.1", sys.argv[1], "test"
        self.watched = Event()
    def _connect(self):
        return http.client.HTTPConnection(self._host, int(self._port))
    def _read(self, name):
        return b"token"
    def watch_pods(self, node, version):
        if self.versions:
            self.watched.set()
            Event().wait()
        self.versions.append(version)
        yield from super().watch_pods(node, version)
    versions = []

api, pods = PlainApi(), WatchedPods()
watch = PodWatch(api, "node-a", pods, monotonic=lambda: 0.0, jitter=lambda: 0.0)
watch.start()
assert api.watched.wait(60), watch.problem
print(json.dumps([sorted(pod.name for pod in pods.by_uid.values()), watch.unreadable, peak()]))
"""


def a_pod(name: str, size: int) -> bytes:
    resources = {"requests": {"kubernetes.io/batch-cpu": "1000"}, "limits": {"kubernetes.io/batch-cpu": "1000"}}
    metadata = {"name": name, "namespace": "tenant", "uid": f"uid-{name}", "resourceVersion": "7", "annotations": {}}
    container = {"name": "c", "env": [{"name": "A", "value": "<"}], "resources": resources}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": [container]}, "status": {}}
    return filled(pod, size)


def test_the_largest_pods_that_tenants_can_create_fit_into_its_memory() -> None:
    """They are limited like all others. One that is longer is named, and hides no other pod."""
    listed = [a_pod("small", 6), *(a_pod(f"large-{each}", 8 * MIB) for each in range(12)), a_pod("longest", 40 * MIB)]
    changed = [a_pod("changed", 8 * MIB), a_pod("longer", 30 * MIB), a_pod("last", 6)]
    with large_objects([*listed, a_pod("end", 6)], changed) as server:
        names, unreadable, peak = in_a_child(AGENT, str(server.port))
    assert names == sorted(["small", *(f"large-{each}" for each in range(12)), "end", "changed", "last"])
    assert [text.split()[0] for text in unreadable] == ["tenant/longest", "tenant/longer"]
    assert peak < 112 * MIB
