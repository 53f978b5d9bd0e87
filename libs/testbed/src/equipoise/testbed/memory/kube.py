"""An API server inside the process, with the versions, watches, conflicts and evictions of the real one.

Methods for tests (`put`, `remove`, `expire`, `fail_next`, ...) are not async and take effect at once.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

from equipoise.contracts.kubernetes.objects.access import AccessReview, AccessReviewSpec, AccessReviewStatus
from equipoise.contracts.kubernetes.objects.cluster import Event
from equipoise.contracts.kubernetes.objects.metadata import Condition, ExplainedCondition, Object, ObjectReference
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.kubernetes.objects.pod import Pod, PodStatus
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from equipoise.contracts.kubernetes.objects.workload import CustomWorkload
from equipoise.contracts.unreadable.lenient_decoding import read_object
from equipoise.runtime.kubernetes.client import (
    EVENTS,
    NODES,
    PODS,
    VOLUMES,
    Change,
    EvictionResult,
    KubeError,
    Resource,
    error_for_status,
)
from equipoise.runtime.kubernetes.unreadable_objects import UnreadableInLists, required_readable
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.unreadable import UnreadableThings
from equipoise.testbed.memory.evictions import RecordedEviction, judged_by_budgets
from equipoise.testbed.memory.faults import Call, Faults, Verb
from equipoise.testbed.memory.object_store import ObjectStore, key_of, with_metadata
from equipoise.testbed.memory.selectors import matches_field, matches_label

T = TypeVar("T", bound=Object)


class MemoryKube:
    """`Kube` without a server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._store = ObjectStore()
        self.faults = Faults()
        self.fail_next, self.refuse, self.clear_faults = self.faults.fail_next, self.faults.refuse, self.faults.clear
        self.calls: list[Call] = []
        """Every request, oldest first."""

        self.evictions: list[RecordedEviction] = []
        """Every requested eviction, including rejected ones and dry runs."""

        self.on_call: Callable[[Call], Awaitable[None]] | None = None
        """A function that is awaited before each request is processed. A test may change objects in it, or delay the
        request."""

        self.admit: Callable[[Object], Awaitable[Object]] | None = None
        """What admission makes of an object that is created."""

        self.terminating_first = False
        """Whether an evicted or deleted pod remains, with a deletionTimestamp, until `remove`."""

        self.as_service_account = False
        self.unreadable = UnreadableThings()
        self._unreadable_in_lists = UnreadableInLists(self.unreadable)

        self.problem = ""
        """The problem that a test sets, independent of the requests."""

        self.silent = False
        """Whether watches receive nothing, not even their end, as with a half-open connection."""

        self.skew = 0.0
        """Seconds by which the clock of the server is ahead."""

        self.time_error = 0.0
        """Seconds by which the estimated time of the server may be wrong."""

        self.scalable: dict[tuple[str, str], Resource[CustomWorkload]] = {}
        """The custom kinds with the scale subresource, by group and kind. A test puts their Scales as `scale_of` the
        kind."""

        self.served: dict[tuple[str, str], list[str]] = {}
        """The versions that `served_versions` finds, by group and kind."""

        self.allows: Callable[[AccessReviewSpec], bool] = lambda _: True
        """The result of access reviews."""

    # For tests

    def put(self, resource: Resource[T], value: T) -> T:
        """Creates or replaces an object; sets uid (`uid-<name>`) and creationTimestamp if they are absent."""
        key = key_of(value)
        before = self._store.objects(resource).get(key)
        uid = value.metadata.uid or (before.metadata.uid if before else self._store.new_uid(resource, key))
        created = value.metadata.creation_timestamp or self._timestamp()
        return self._store.write(resource, with_metadata(value, uid=uid, creation_timestamp=created))

    def put_json(self, resource: Resource[T], text: bytes) -> T:
        """Puts an object as an API server sends it. A part of it may be undecodable."""
        return self.put(resource, read_object(text, resource.model))

    def remove(self, resource: Resource[T], name: str, namespace: str = "") -> None:
        """Removes an object at once. Raises KeyError if there is none."""
        self._store.remove(resource, name, namespace)

    def stored(self, resource: Resource[T]) -> list[T]:
        """Every object of a kind, in order of namespace and name."""
        return self._store.sorted(resource)

    @property
    def events(self) -> list[Event]:
        """The Events, oldest first."""
        return sorted(self.stored(EVENTS), key=lambda event: int(event.metadata.resource_version))

    def expire(self) -> None:
        """Compacts the history. Running watches, and new watches from an earlier version, get status 410."""
        self._store.compact()

    def end_watches(self, error: KubeError | None = None) -> None:
        """Ends running watches: normally, as after their timeoutSeconds, or with an error."""
        self._store.end_watches(error)

    def bookmark(self) -> None:
        """Sends a bookmark to running watches."""
        self._store.bookmark()

    # Kube

    async def server_version(self) -> str:
        async with self._request("discover", PODS, "", "version"):
            return "v1.37.2"

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        async with self._request("get", resource, namespace, name):
            found = self._store.find(resource, namespace, name)
            return required_readable(found, f"get {resource.plural} {name}", self.unreadable, resource.plural)

    async def list(
        self, resource: Resource[T], namespace: str = "", label_selector: str = "", *, field_selector: str = ""
    ) -> list[T]:
        async with self._request("list", resource, namespace):
            found = [
                value
                for value in self.stored(resource)
                if (not namespace or value.metadata.namespace == namespace)
                and matches_label(value.metadata.labels, label_selector)
                and matches_field(value, field_selector)
            ]
            self._unreadable_in_lists.listed(
                (resource.plural, namespace, label_selector, field_selector), resource.plural, found
            )
            return found

    async def pages(self, resource: Resource[T]) -> AsyncGenerator[Sequence[T], None]:
        async with self._request("list", resource, ""):
            found = self.stored(resource)
        yield found

    async def watch(
        self, resource: Resource[T], *, since: str = "", namespace: str = "", field_selector: str = ""
    ) -> AsyncGenerator[Change[T], None]:
        async with self._request("watch", resource, namespace):
            pass
        changes = self._store.watch(resource, since, namespace, field_selector, lambda: self.silent)
        async with aclosing(changes):
            async for change in changes:
                yield change

    async def find_scalable(self, group: str, kind: str) -> Resource[CustomWorkload] | None:
        async with self._request("discover", PODS, "", f"{group}/{kind}"):
            return self.scalable.get((group, kind))

    async def served_versions(self, group: str, kind: str) -> Sequence[str]:
        async with self._request("discover", PODS, "", f"{group}/{kind}"):
            return self.served.get((group, kind), [])

    async def create(self, resource: Resource[T], value: T, *, dry_run: bool = False) -> T:
        name = value.metadata.name
        async with self._request("create", resource, *key_of(value)):
            if isinstance(value, AccessReview):
                status = AccessReviewStatus(allowed=self.allows(value.spec))
                return cast("T", msgspec.structs.replace(value, status=status))
            if key_of(value) in self._store.objects(resource):
                raise error_for_status(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')
            if self.admit is not None:
                value = cast("T", await self.admit(value))
            if dry_run:
                return value
            uid = self._store.new_uid(resource, key_of(value))
            return self._store.write(resource, with_metadata(value, uid=uid, creation_timestamp=self._timestamp()))

    async def replace(self, resource: Resource[T], value: T) -> T:
        async with self._request("replace", resource, *key_of(value)):
            required_readable(value, f"replace {resource.plural}", self.unreadable, resource.plural)
            before = self._store.find(resource, *key_of(value)).metadata
            if value.metadata.resource_version != before.resource_version:
                raise _conflict(resource, before.name, "the object has been modified")
            value = with_metadata(value, uid=before.uid, creation_timestamp=before.creation_timestamp)
            return self._store.write(resource, value)

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
        async with self._request("annotate", resource, namespace, name):
            value = self._store.find(resource, namespace, name)
            before = value.metadata.annotations
            if uid and uid != value.metadata.uid:
                raise _conflict(resource, name, f"UID in precondition: {uid}")
            if version and version != value.metadata.resource_version:
                raise _conflict(resource, name, "the object has been modified")
            if expected and not expected.items() <= before.items():
                raise _conflict(resource, name, "an annotation has another value")
            merged = _with_texts(before, annotations)
            if merged != before:
                self._store.write(resource, with_metadata(value, annotations=merged))

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
        async with self._request("annotate", resource, namespace, name):
            value = self._with_uid(resource, namespace, name, uid)
            if version != value.metadata.resource_version:
                raise _conflict(resource, name, "the object has been modified")
            changed = with_metadata(
                value,
                labels=_with_texts(value.metadata.labels, labels),
                annotations=_with_texts(value.metadata.annotations, annotations),
            )
            if changed != value:
                self._store.write(resource, changed)

    async def set_node_amounts(self, name: str, amounts: Mapping[str, int | None], *, uid: str) -> None:
        async with self._request("update_status", NODES, "", name):
            node = self._store.find(NODES, "", name)
            if uid != node.metadata.uid:
                raise _conflict(NODES, name, f"UID in precondition: {uid}")
            new = {field: _merged(getattr(node.status, field), amounts) for field in ("capacity", "allocatable")}
            status = msgspec.structs.replace(node.status, **new)
            if status != node.status:
                self._store.write(NODES, msgspec.structs.replace(node, status=status))

    async def set_taint(self, node: Node, taint: Taint, *, present: bool) -> None:
        name = node.metadata.name
        async with self._request("taint", NODES, "", name):
            required_readable(node, f"taint {name}", self.unreadable, NODES.plural)
            found = self._with_uid(NODES, "", name, node.metadata.uid)
            if found.metadata.resource_version != node.metadata.resource_version:
                raise _conflict(NODES, name, "the object has been modified")
            changed = _with_taint(found.spec.taints, taint, present=present)
            if changed != found.spec.taints:
                spec = msgspec.structs.replace(found.spec, taints=changed)
                self._store.write(NODES, msgspec.structs.replace(found, spec=spec))

    async def bind(self, namespace: str, name: str, node: str, *, uid: str) -> None:
        async with self._request("bind", PODS, namespace, name):
            pod = self._pod(namespace, name, uid)
            if pod.spec.node_name:
                raise _conflict(PODS, name, f'pod {name} is already assigned to node "{pod.spec.node_name}"')
            spec = msgspec.structs.replace(pod.spec, node_name=node)
            scheduled = Condition(type="PodScheduled", status="True", last_transition_time=self._timestamp())
            status = _with_condition(pod.status, scheduled)
            self._store.write(PODS, msgspec.structs.replace(pod, spec=spec, status=status))

    async def set_pod_status(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        condition: ExplainedCondition | None = None,
        nominated_node: str | None = None,
    ) -> None:
        async with self._request("update_status", PODS, namespace, name):
            pod = self._pod(namespace, name, uid)
            status = pod.status if condition is None else _with_condition(pod.status, condition)
            if nominated_node is not None:
                status = msgspec.structs.replace(status, nominated_node_name=nominated_node)
            if status != pod.status:
                self._store.write(PODS, msgspec.structs.replace(pod, status=status))

    async def reserve_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        name = volume.metadata.name
        async with self._request("annotate", VOLUMES, "", name):
            found = self._store.find(VOLUMES, "", name)
            if found.metadata.resource_version != volume.metadata.resource_version:
                raise _conflict(VOLUMES, name, "the object has been modified")
            of_claim = claim.metadata
            reference = ObjectReference(
                api_version="v1", kind="PersistentVolumeClaim", namespace=of_claim.namespace, name=of_claim.name,
                uid=of_claim.uid,
            )  # fmt: skip
            annotations = found.metadata.annotations | {"pv.kubernetes.io/bound-by-controller": "yes"}
            reserved = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, claim_ref=reference))
            self._store.write(VOLUMES, with_metadata(reserved, annotations=annotations))

    async def delete(self, resource: Resource[T], name: str, namespace: str = "", *, uid: str) -> None:
        async with self._request("delete", resource, namespace, name):
            found = self._with_uid(resource, namespace, name, uid)
            if isinstance(found, Pod):
                self._delete(found)
            else:
                self.remove(resource, name, namespace)

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
        result: EvictionResult | None = None
        response: EvictionResult
        try:
            async with self._request("evict", PODS, namespace, name):
                pod = self._pod(namespace, name, uid)
                response = result = judged_by_budgets(self._store, pod, dry_run=dry_run)
                if result.status == 201 and not dry_run:
                    self._delete(pod)
        except KubeError as error:
            response = EvictionResult(
                status=error.status, reason=error.reason, message=error.message, retry_after=error.retry_after
            )
        # Without its response, an eviction is recorded with the result that the client did not get.
        self.evictions.append(
            RecordedEviction(
                namespace=namespace, name=name, uid=uid, dry_run=dry_run, at=self._clock.now(),
                status=(result or response).status,
            )
        )  # fmt: skip
        return response

    def server_time(self, now: float) -> float:
        return now + self.skew

    def server_time_bounds(self, now: float) -> tuple[float, float]:
        return self.server_time(now) - self.time_error, self.server_time(now) + self.time_error

    @asynccontextmanager
    async def _request(
        self, verb: Verb, resource: Resource[Any], namespace: str, name: str = ""
    ) -> AsyncIterator[None]:
        """Records a request, and raises the fault that a test set: before the block, or after it if only the response
        is lost."""
        call = Call(verb=verb, resource=resource.plural, namespace=namespace, name=name)
        self.calls.append(call)
        await asyncio.sleep(0)  # a real response takes time, in which other tasks may write
        if self.on_call is not None:
            await self.on_call(call)
        lost = self.faults.apply(call)
        yield
        if lost is not None:
            raise lost

    def _delete(self, pod: Pod) -> None:
        if self.terminating_first:
            self._store.write(PODS, with_metadata(pod, deletion_timestamp=self._timestamp()))
        else:
            self.remove(PODS, pod.metadata.name, pod.metadata.namespace)

    def _pod(self, namespace: str, name: str, uid: str) -> Pod:
        return self._with_uid(PODS, namespace, name, uid)

    def _with_uid(self, resource: Resource[T], namespace: str, name: str, uid: str) -> T:
        found = self._store.find(resource, namespace, name)
        if uid != found.metadata.uid:
            message = f"the UID in the precondition ({uid}) does not match the UID in record ({found.metadata.uid})"
            raise error_for_status(409, "Conflict", message)
        return found

    def _timestamp(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)


def _with_texts(before: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The labels or annotations after a patch, which removes those that are None."""
    return {key: text for key, text in {**before, **changes}.items() if text is not None}


def _merged(quantities: Mapping[str, str], amounts: Mapping[str, int | None]) -> dict[str, str]:
    """The quantities after a patch, which removes those whose amount is None."""
    kept = {name: text for name, text in quantities.items() if name not in amounts}
    return kept | {name: str(amount) for name, amount in amounts.items() if amount is not None}


def _with_taint(taints: Sequence[Taint], taint: Taint, *, present: bool) -> list[Taint]:
    """The taints with this one, which replaces one with the same key and effect, or without it."""
    same = (taint.key, taint.effect)
    changed = [taint if present and (each.key, each.effect) == same else each for each in taints]
    if not present:
        return [each for each in taints if (each.key, each.effect) != same]
    return changed if taint in changed else [*changed, taint]


def _with_condition(status: PodStatus, condition: Condition) -> PodStatus:
    """The status with a condition, which replaces an earlier condition of its type."""
    conditions = [condition if other.type == condition.type else other for other in status.conditions]
    if condition not in conditions:
        conditions.append(condition)
    return msgspec.structs.replace(status, conditions=conditions)


def _conflict(resource: Resource[Any], name: str, message: str) -> KubeError:
    return error_for_status(409, "Conflict", f'{resource.plural} "{name}": {message}')
