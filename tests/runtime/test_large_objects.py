"""Memory of a service that reads objects of tenants, whatever they contain."""

from pathlib import Path

from large_objects import MIB, filled, in_a_child, large_objects

CLIENT = """
import asyncio, json, sys
from contextlib import aclosing
from equipoise.runtime.configuration.sections import Kubernetes
from equipoise.runtime.kubernetes import client
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock

async def read():
    async with connect_kube(Kubernetes(kubeconfig=sys.argv[1]), "test", SystemClock()) as kube:
        before = peak()
        names = []
        if sys.argv[2] == "pages":
            async for page in kube.pages(client.metadata_of(client.DEPLOYMENTS)):
                names += [each.metadata.name for each in page]
        elif sys.argv[2] == "list":
            names = [each.metadata.name for each in await kube.list(client.PODS)]
        else:
            async with aclosing(kube.watch(client.PODS, since="5")) as changes:
                async for change in changes:
                    names.append(change.object.metadata.name + " unreadable" * bool(change.object.metadata.unreadable))
        print(json.dumps([names, peak() - before]))

asyncio.run(read())
"""


def an_object(name: str, size: int, annotation: str = "", value: str = "") -> bytes:
    metadata = {"name": name, "namespace": "tenant", "resourceVersion": "7", "annotations": {"a": annotation}}
    spec = {"containers": [{"name": "c", "env": [{"name": "A", "value": value}]}]}
    return filled({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}, size)


def kubeconfig(file: Path, url: str) -> str:
    file.write_text(
        f"""{{"current-context": "a", "contexts": [{{"name": "a", "context": {{"cluster": "a", "user": "a"}}}}],
        "clusters": [{{"name": "a", "cluster": {{"server": "{url}"}}}}],
        "users": [{{"name": "a", "user": {{"token": "t"}}}}]}}"""
    )
    return str(file)


def test_pages_of_large_annotations_take_little_memory(tmp_path: Path) -> None:
    """Fewer objects at a time; the following small ones are read many at a time again."""
    listed = [an_object(f"a-{each}", 3 * MIB // 2, annotation="<") for each in range(120)]
    listed += [an_object(f"b-{each}", 0) for each in range(300)]
    with large_objects(listed) as server:
        names, more = in_a_child(CLIENT, kubeconfig(tmp_path / "config", server.url), "pages")
    assert names == [*(f"a-{each}" for each in range(120)), *(f"b-{each}" for each in range(300))]
    assert more < 160 * MIB


def test_a_list_of_large_pods_takes_little_memory(tmp_path: Path) -> None:
    with large_objects([an_object(f"a-{each}", 8 * MIB, value="<") for each in range(20)]) as server:
        names, more = in_a_child(CLIENT, kubeconfig(tmp_path / "config", server.url), "list")
    assert names == [f"a-{each}" for each in range(20)]
    assert more < 160 * MIB


def test_an_event_that_is_longer_than_any_object_is_not_held(tmp_path: Path) -> None:
    """Its object is named and unknown, and the watch goes on."""
    changed = [an_object("a", 8 * MIB, value="<"), an_object("b", 100 * MIB, value="<"), an_object("c", 0)]
    with large_objects([], changed) as server:
        names, more = in_a_child(CLIENT, kubeconfig(tmp_path / "config", server.url), "watch")
    assert names == ["a", "b unreadable", "c"]
    assert more < 160 * MIB
