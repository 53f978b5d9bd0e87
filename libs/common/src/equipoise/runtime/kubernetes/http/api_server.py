"""A client of the API server that decodes only the fields that services read.

The decoding of whole objects would block the event loop for seconds.
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

import aiohttp

from equipoise.contracts.kubernetes.objects.metadata import ExplainedCondition, Object
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from equipoise.contracts.kubernetes.objects.workload import CustomWorkload
from equipoise.contracts.unreadable.lenient_decoding import read_object
from equipoise.contracts.unreadable.long_objects import event_of_long_object
from equipoise.runtime.kubernetes.client import (
    NODES,
    PODS,
    VOLUMES,
    Change,
    Conflict,
    EvictionResult,
    KubeError,
    NotFound,
    Resource,
    path_of,
)
from equipoise.runtime.kubernetes.http import patches, responses
from equipoise.runtime.kubernetes.http.requests import CONNECT_SECONDS, Requests, raise_for_status
from equipoise.runtime.kubernetes.unreadable_objects import UnreadableInLists, required_readable
from equipoise.runtime.process.unreadable import UnreadableThings

T = TypeVar("T", bound=Object)

WATCH_INACTIVITY_SECONDS = 120.0
"""A working watch has a bookmark about once a minute."""

WATCH_SECONDS = (240, 300)
"""The server ends a watch after a random time in this range, so that connections spread over its replicas again."""

PAGE_SIZE = 500
"""The most objects of one page of a list. Pages of large objects have fewer, so that a page fits in MAX_BYTES."""

MAX_BYTES = 32 * 2**20
"""The most bytes of a page or an event that are held. One object has less (`contracts.unreadable.long_objects`)."""

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The accepted media types if the response is not read. A whole Node would be long, because it lists its images."""

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""The accepted media types of a list of which only the metadata is read."""

_WATCH = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=WATCH_INACTIVITY_SECONDS)


class ApiServer:
    """`Kube` over HTTP, created by `connect_kube`."""

    def __init__(self, requests: Requests, *, agent: str, as_service_account: bool = False) -> None:
        """`agent` is the name of this client in managedFields."""
        self.requests = requests
        self._agent = agent
        self._streams_lists = True
        self._page_sizes: dict[str, int] = {}
        """The page size of the last list, by path. The next list does not begin with pages that are too large."""

        self.as_service_account = as_service_account
        self.unreadable = UnreadableThings()
        self._unreadable_in_lists = UnreadableInLists(self.unreadable)

    @property
    def problem(self) -> str:
        return self.requests.availability.problem

    async def server_version(self) -> str:
        return await self.requests.request("get version", "GET", "/version", responses.read_version)

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        what = _what("get", resource, namespace, name)
        read = partial(read_object, model=resource.model)
        value = await self.requests.request(what, "GET", resource.path(namespace, name), read)
        return required_readable(value, what, self.unreadable, resource.plural)

    async def list(
        self, resource: Resource[T], namespace: str = "", label_selector: str = "", *, field_selector: str = ""
    ) -> list[T]:
        selection = {"labelSelector": label_selector} if label_selector else {}
        if field_selector:
            selection["fieldSelector"] = field_selector
        values = [value async for page in self._pages(resource, namespace, selection) for value in page.items]
        query = (resource.plural, namespace, *selection.values())
        self._unreadable_in_lists.listed(query, resource.plural, values)
        return values

    async def pages(self, resource: Resource[T]) -> AsyncGenerator[Sequence[T], None]:
        async for page in self._pages(resource, "", {}):
            yield page.items

    async def watch(
        self, resource: Resource[T], *, since: str = "", namespace: str = "", field_selector: str = ""
    ) -> AsyncGenerator[Change[T], None]:
        selection = {"fieldSelector": field_selector} if field_selector else {}
        if not since and self._streams_lists:
            beginning = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            try:
                async with aclosing(self._stream(resource, namespace, selection | beginning)) as changes:
                    async for change in changes:
                        yield change
                return
            except KubeError as error:
                if error.status not in (400, 422):  # the server does not support streaming lists
                    raise
                self._streams_lists = False
        if not since:
            async for page in self._pages(resource, namespace, selection):
                for value in page.items:
                    yield Change(kind="added", object=value, resource_version=value.metadata.resource_version)
                since = page.metadata.resource_version
            yield Change(kind="bookmark", object=None, resource_version=since, synced=True)
        async with aclosing(self._stream(resource, namespace, selection | {"resourceVersion": since})) as changes:
            async for change in changes:
                yield change

    async def find_scalable(self, group: str, kind: str) -> Resource[CustomWorkload] | None:
        version = "v1"
        if group:
            api_group = await self.requests.request(
                f"get group {group}", "GET", path_of("apis", group), responses.read_group
            )
            version = api_group.preferred_version.version
        root = path_of("apis", group, version) if group else path_of("api", version)
        kinds = await self.requests.request(f"get resources of {group}/{version}", "GET", root, responses.read_kinds)
        return responses.scalable(kinds, group=group, version=version, kind=kind)

    async def served_versions(self, group: str, kind: str) -> Sequence[str]:
        try:
            api_group = await self.requests.request(
                f"get group {group}", "GET", path_of("apis", group), responses.read_group
            )
        except NotFound:
            return []
        versions = []
        for version in (served.version for served in api_group.versions or ()):
            what, path = f"get resources of {group}/{version}", path_of("apis", group, version)
            kinds = await self.requests.request(what, "GET", path, responses.read_kinds)
            if kind in {served.kind for served in kinds.resources or ()}:
                versions.append(version)
        return versions

    async def create(self, resource: Resource[T], value: T, *, dry_run: bool = False) -> T:
        what = _what("create", resource, value.metadata.namespace, value.metadata.name)
        path = resource.path(value.metadata.namespace)
        return await self._write(what, "POST", path, resource, value, dry_run=dry_run)

    async def replace(self, resource: Resource[T], value: T) -> T:
        metadata = value.metadata
        what = _what("replace", resource, metadata.namespace, metadata.name)
        required_readable(value, what, self.unreadable, resource.plural)
        if not metadata.resource_version:
            raise KubeError(400, "BadRequest", f"{what}: without a resourceVersion it would overwrite other changes")
        return await self._write(what, "PUT", resource.path(metadata.namespace, metadata.name), resource, value)

    async def annotate(
        self,
        resource: Resource[T],
        name: str,
        annotations: Mapping[str, str | None],
        *,
        namespace: str = "",
        uid: str = "",
        version: str = "",
        expected: Mapping[str, str] | None = None,
    ) -> None:
        content_type, body = patches.annotation_patch(annotations, uid=uid, version=version, expected=expected)
        try:
            await self.requests.request(
                _what("annotate", resource, namespace, name),
                "PATCH",
                resource.path(namespace, name),
                bytes,
                query={"fieldManager": self._agent},
                body=body,
                content_type=content_type,
                accept=METADATA_ONLY,
            )
        except KubeError as error:
            # Also the response to a failed test of the JSON patch. It does not state the cause.
            if expected and error.status == 422:
                raise Conflict(409, "Conflict", error.message) from error
            raise

    async def relabel(
        self,
        resource: Resource[T],
        name: str,
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
        *,
        namespace: str,
        uid: str,
        version: str,
        within: float,
    ) -> None:
        what = _what("relabel", resource, namespace, name)
        preconditions = {"uid": uid, "resourceVersion": version}
        async with self.requests.send(
            what,
            "PATCH",
            resource.path(namespace, name),
            query={"fieldManager": self._agent},
            body={"metadata": {"labels": dict(labels), "annotations": dict(annotations), **preconditions}},
            content_type="application/merge-patch+json",
            accept=METADATA_ONLY,
            within=within,
        ) as response:
            await raise_for_status(response, what)

    async def set_node_amounts(self, name: str, amounts: Mapping[str, int | None], *, uid: str) -> None:
        texts = {resource: None if amount is None else str(amount) for resource, amount in amounts.items()}
        await self.requests.request(
            _what("update the status of", NODES, "", name),
            "PATCH",
            NODES.path(name=name, subresource="status"),
            bytes,
            query={"fieldManager": self._agent},
            body={"metadata": {"uid": uid}, "status": {"capacity": texts, "allocatable": texts}},
            content_type="application/merge-patch+json",
            accept=METADATA_ONLY,
        )

    async def set_taint(self, node: Node, taint: Taint, *, present: bool) -> None:
        name = node.metadata.name
        what = _what("taint" if present else "remove the taint of", NODES, "", name)
        required_readable(node, what, self.unreadable, NODES.plural)
        await self.requests.request(
            what,
            "PATCH",
            NODES.path(name=name),
            bytes,
            query={"fieldManager": self._agent},
            body=patches.taint_patch(node, taint, present=present),
            content_type="application/json-patch+json",
            accept=METADATA_ONLY,
        )

    async def bind(self, namespace: str, name: str, node: str, *, uid: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        what, path = _what("bind", PODS, namespace, name), PODS.path(namespace, name, "binding")
        await self.requests.request(what, "POST", path, bytes, query={"fieldManager": self._agent}, body=body)

    async def set_pod_status(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        condition: ExplainedCondition | None = None,
        nominated_node: str | None = None,
    ) -> None:
        await self.requests.request(
            _what("update the status of", PODS, namespace, name),
            "PATCH",
            PODS.path(namespace, name, "status"),
            bytes,
            query={"fieldManager": self._agent},
            body=patches.pod_status_patch(uid=uid, condition=condition, nominated_node=nominated_node),
            content_type="application/strategic-merge-patch+json",
            accept=METADATA_ONLY,
        )

    async def reserve_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        name = volume.metadata.name
        await self.requests.request(
            _what("reserve", VOLUMES, "", name),
            "PATCH",
            VOLUMES.path(name=name),
            bytes,
            query={"fieldManager": self._agent},
            body=patches.reservation_patch(volume, claim),
            content_type="application/merge-patch+json",
            accept=METADATA_ONLY,
        )

    async def delete(self, resource: Resource[T], name: str, namespace: str = "", *, uid: str) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        what, path = _what("delete", resource, namespace, name), resource.path(namespace, name)
        await self.requests.request(what, "DELETE", path, bytes, body=body, accept=METADATA_ONLY)

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        dry_run: bool,
        grace_period: int | None = None,
        within: float | None = None,
    ) -> EvictionResult:
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        # dryRun is in the query for the audit log, and in the body because a proxy may remove the query.
        query = {"dryRun": "All"} if dry_run else {}
        what = _what("evict", PODS, namespace, name)
        try:
            path = PODS.path(namespace, name, "eviction")
            async with self.requests.send(what, "POST", path, query=query, body=body, within=within) as response:
                return responses.read_eviction(response.status, response.headers, await response.read())
        except KubeError as error:
            return EvictionResult(status=error.status, reason=error.reason, message=error.message)

    def server_time(self, now: float) -> float:
        return self.requests.server_time.at(now)

    def server_time_bounds(self, now: float) -> tuple[float, float]:
        return self.requests.server_time.bounds(now)

    async def _pages(
        self, resource: Resource[T], namespace: str, selection: Mapping[str, str]
    ) -> AsyncIterator[responses.Page[T]]:
        """The pages of a list. They are requested without a resourceVersion.

        With resourceVersion "0", the server would ignore the limit and send half a gigabyte at once.
        """
        what = _what("list", resource, namespace, "")
        path = resource.path(namespace)
        query = dict(selection)
        accept = METADATA_LIST if resource.model is Object else "application/json"
        size = self._page_sizes.get(path, PAGE_SIZE)
        while True:
            query["limit"] = str(size)
            page = None
            async with self.requests.send(what, "GET", path, query=query, accept=accept) as response:
                await raise_for_status(response, what)
                body = await (response.read() if size == 1 else _body_up_to_limit(response))
                if body is not None:
                    page = responses.read_page(body, resource.model)
                del body
            if page is None:
                size = max(1, size // 8)
                continue
            self._page_sizes[path] = size
            yield page
            if not page.metadata.next:
                return
            query["continue"] = page.metadata.next
            size = min(PAGE_SIZE, size * 2)

    async def _stream(
        self, resource: Resource[T], namespace: str, selection: Mapping[str, str]
    ) -> AsyncGenerator[Change[T], None]:
        what = _what("watch", resource, namespace, "")
        query = {
            **selection,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
        }
        async with self.requests.send(what, "GET", resource.path(namespace), query=query, timeout=_WATCH) as response:
            await raise_for_status(response, what)
            unfinished = bytearray()
            async for chunk in response.content.iter_any():
                unfinished += chunk
                if b"\n" in chunk:
                    *lines, unfinished = unfinished.split(b"\n")
                    for line in lines:
                        event = line if len(line) <= MAX_BYTES else event_of_long_object(line)
                        yield responses.read_change(event, resource)
                del unfinished[MAX_BYTES + 1 :]  # one byte above the limit shows that the event is too long
            if unfinished:
                raise KubeError(0, "Broken", f"{what}: ended within an event")

    async def _write(
        self, what: str, method: str, path: str, resource: Resource[T], value: T, *, dry_run: bool = False
    ) -> T:
        read = partial(read_object, model=resource.model)
        body = responses.as_body(resource, value)
        query = {"fieldManager": self._agent} | ({"dryRun": "All"} if dry_run else {})
        return await self.requests.request(what, method, path, read, query=query, body=body)


def _what(verb: str, resource: Resource[Any], namespace: str, name: str) -> str:
    """The name of a request in errors, such as `evict pods shop/web-1`."""
    return " ".join(filter(None, (verb, resource.plural, "/".join(filter(None, (namespace, name))))))


async def _body_up_to_limit(response: aiohttp.ClientResponse) -> bytes | None:
    """The body; None if it has more than MAX_BYTES. A longer body is not read to its end."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BYTES:
            return None
    return bytes(body)
