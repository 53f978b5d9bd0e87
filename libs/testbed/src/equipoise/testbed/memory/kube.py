"""An API server inside the process, with the versions, watches, conflicts and evictions of the real one.

Methods for tests (`put`, `remove`, `expire`, `fail_next`, ...) are not async and take effect at once.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, cast

import msgspec

from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.access import AccessReview, AccessReviewSpec, AccessReviewStatus
from equipoise.contracts.kubernetes.objects.cluster import Event
from equipoise.contracts.kubernetes.objects.metadata import Condition, ExplainedCondition, Object, ObjectReference
from equipoise.contracts.kubernetes.objects.pod import Pod, PodStatus
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from equipoise.contracts.kubernetes.objects.workload import CustomWorkload, PodDisruptionBudget
from equipoise.contracts.unreadable.lenient_decoding import read_object
from equipoise.runtime.kubernetes.client import (
    BUDGETS,
    EVENTS,
    NODES,
    PODS,
    VOLUMES,
    Change,
    EvictionResult,
    Expired,
    KubeError,
    Resource,
    error_for_status,
)
from equipoise.runtime.kubernetes.unreadable_objects import UnreadableInLists, required_readable
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.unreadable import UnreadableThings
from equipoise.testbed.memory.faults import Call, Faults, Verb

T = TypeVar("T", bound=Object)
Key = tuple[str, str]
"""The namespace and name of an object."""

_FIELDS: Mapping[str, Callable[[Object], str]] = {
    "metadata.name": lambda value: value.metadata.name,
    "metadata.namespace": lambda value: value.metadata.namespace,
    "spec.nodeName": lambda value: value.spec.node_name if isinstance(value, Pod) else "",
}
"""Fields that a field selector may name."""


class RecordedEviction(msgspec.Struct, frozen=True, kw_only=True):
    """One POST of pods/eviction and its result, even if the response was lost."""

    namespace: str
    name: str
    uid: str
    dry_run: bool
    at: float
    """Unix seconds."""

    status: int


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A change for watches. A bookmark has no resource, and all watches receive it."""

    version: int
    resource: str
    change: Change[Any]
    before: Object | None = None


class MemoryKube:
    """`Kube` without a server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._version = 0
        self._compacted = 0
        self._objects: dict[str, dict[Key, Object]] = {}
        self._history: list[_Entry] = []
        self._changed = asyncio.Event()
        self._generation = 0
        self._ended_by: KubeError | None = None
        self._created: Counter[tuple[str, Key]] = Counter()
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
        key = _key(value)
        before = self._store(resource).get(key)
        uid = value.metadata.uid or (before.metadata.uid if before else self._new_uid(resource, key))
        created = value.metadata.creation_timestamp or self._timestamp()
        return self._write(resource, _with_metadata(value, uid=uid, creation_timestamp=created))

    def put_json(self, resource: Resource[T], text: bytes) -> T:
        """Puts an object as an API server sends it. A part of it may be undecodable."""
        return self.put(resource, read_object(text, resource.model))

    def remove(self, resource: Resource[T], name: str, namespace: str = "") -> None:
        """Removes an object at once. Raises KeyError if there is none."""
        before = self._store(resource).pop((namespace, name))
        self._version += 1
        value = _with_metadata(before, resource_version=str(self._version))
        self._record(resource, Change(kind="deleted", object=value, resource_version=str(self._version)), before)

    def stored(self, resource: Resource[T]) -> list[T]:
        """Every object of a kind, in order of namespace and name."""
        store = self._store(resource)
        return [store[key] for key in sorted(store)]

    @property
    def events(self) -> list[Event]:
        """The Events, oldest first."""
        return sorted(self.stored(EVENTS), key=lambda event: int(event.metadata.resource_version))

    def expire(self) -> None:
        """Compacts the history. Running watches, and new watches from an earlier version, get status 410."""
        self._version += 1
        self._compacted = self._version
        self._history.clear()
        self._wake()

    def end_watches(self, error: KubeError | None = None) -> None:
        """Ends running watches: normally, as after their timeoutSeconds, or with an error."""
        self._generation += 1
        self._ended_by = error
        self._wake()

    def bookmark(self) -> None:
        """Sends a bookmark to running watches."""
        change: Change[Any] = Change(kind="bookmark", object=None, resource_version=str(self._version))
        self._history.append(_Entry(version=self._version, resource="", change=change))
        self._wake()

    # Kube

    async def server_version(self) -> str:
        async with self._request("discover", PODS, "", "version"):
            return "v1.37.2"

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        async with self._request("get", resource, namespace, name):
            found = self._find(resource, namespace, name)
            return required_readable(found, f"get {resource.plural} {name}", self.unreadable, resource.plural)

    async def list(
        self, resource: Resource[T], namespace: str = "", label_selector: str = "", *, field_selector: str = ""
    ) -> list[T]:
        async with self._request("list", resource, namespace):
            found = [
                value
                for value in self.stored(resource)
                if (not namespace or value.metadata.namespace == namespace)
                and _matches_label(value.metadata.labels, label_selector)
                and _matches_field(value, field_selector)
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
        generation, kind = self._generation, _id(resource)

        def selected(value: Object | None) -> bool:
            return (
                value is not None
                and namespace in ("", value.metadata.namespace)
                and _matches_field(value, field_selector)
            )

        current = int(since) if since else self._version
        # The number of entries of the history that this watch has received or does not need.
        passed = sum(entry.version <= current for entry in self._history)
        if not since:
            for value in self.stored(resource):
                if selected(value):
                    yield Change(kind="added", object=value, resource_version=value.metadata.resource_version)
            yield Change(kind="bookmark", object=None, resource_version=str(current), synced=True)
        while True:
            while self.silent:
                await self._changed.wait()
            if current < self._compacted:
                raise Expired(410, "Expired", f"too old resource version: {current} ({self._compacted})")
            if generation != self._generation:
                if self._ended_by is not None:
                    raise self._ended_by
                return
            if passed == len(self._history):
                await self._changed.wait()
                continue
            entry = self._history[passed]
            current, passed = entry.version, passed + 1
            if not entry.resource:
                yield entry.change
            elif entry.resource == kind:
                seen = _seen(entry.change, selected(entry.before), selected(entry.change.object))
                if seen is not None:
                    yield seen

    async def find_scalable(self, group: str, kind: str) -> Resource[CustomWorkload] | None:
        async with self._request("discover", PODS, "", f"{group}/{kind}"):
            return self.scalable.get((group, kind))

    async def served_versions(self, group: str, kind: str) -> Sequence[str]:
        async with self._request("discover", PODS, "", f"{group}/{kind}"):
            return self.served.get((group, kind), [])

    async def create(self, resource: Resource[T], value: T, *, dry_run: bool = False) -> T:
        name = value.metadata.name
        async with self._request("create", resource, *_key(value)):
            if isinstance(value, AccessReview):
                status = AccessReviewStatus(allowed=self.allows(value.spec))
                return cast("T", msgspec.structs.replace(value, status=status))
            if _key(value) in self._store(resource):
                raise error_for_status(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')
            if self.admit is not None:
                value = cast("T", await self.admit(value))
            if dry_run:
                return value
            uid = self._new_uid(resource, _key(value))
            return self._write(resource, _with_metadata(value, uid=uid, creation_timestamp=self._timestamp()))

    async def replace(self, resource: Resource[T], value: T) -> T:
        async with self._request("replace", resource, *_key(value)):
            required_readable(value, f"replace {resource.plural}", self.unreadable, resource.plural)
            before = self._find(resource, *_key(value)).metadata
            if value.metadata.resource_version != before.resource_version:
                raise _conflict(resource, before.name, "the object has been modified")
            value = _with_metadata(value, uid=before.uid, creation_timestamp=before.creation_timestamp)
            return self._write(resource, value)

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
            value = self._find(resource, namespace, name)
            before = value.metadata.annotations
            if uid and uid != value.metadata.uid:
                raise _conflict(resource, name, f"UID in precondition: {uid}")
            if version and version != value.metadata.resource_version:
                raise _conflict(resource, name, "the object has been modified")
            if expected and not expected.items() <= before.items():
                raise _conflict(resource, name, "an annotation has another value")
            merged = _with_texts(before, annotations)
            if merged != before:
                self._write(resource, _with_metadata(value, annotations=merged))

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
            changed = _with_metadata(
                value,
                labels=_with_texts(value.metadata.labels, labels),
                annotations=_with_texts(value.metadata.annotations, annotations),
            )
            if changed != value:
                self._write(resource, changed)

    async def set_node_amounts(self, name: str, amounts: Mapping[str, int | None], *, uid: str) -> None:
        async with self._request("update_status", NODES, "", name):
            node = self._find(NODES, "", name)
            if uid != node.metadata.uid:
                raise _conflict(NODES, name, f"UID in precondition: {uid}")
            new = {field: _merged(getattr(node.status, field), amounts) for field in ("capacity", "allocatable")}
            status = msgspec.structs.replace(node.status, **new)
            if status != node.status:
                self._write(NODES, msgspec.structs.replace(node, status=status))

    async def bind(self, namespace: str, name: str, node: str, *, uid: str) -> None:
        async with self._request("bind", PODS, namespace, name):
            pod = self._pod(namespace, name, uid)
            if pod.spec.node_name:
                raise _conflict(PODS, name, f'pod {name} is already assigned to node "{pod.spec.node_name}"')
            spec = msgspec.structs.replace(pod.spec, node_name=node)
            scheduled = Condition(type="PodScheduled", status="True", last_transition_time=self._timestamp())
            status = _with_condition(pod.status, scheduled)
            self._write(PODS, msgspec.structs.replace(pod, spec=spec, status=status))

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
                self._write(PODS, msgspec.structs.replace(pod, status=status))

    async def reserve_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        name = volume.metadata.name
        async with self._request("annotate", VOLUMES, "", name):
            found = self._find(VOLUMES, "", name)
            if found.metadata.resource_version != volume.metadata.resource_version:
                raise _conflict(VOLUMES, name, "the object has been modified")
            of_claim = claim.metadata
            reference = ObjectReference(
                api_version="v1", kind="PersistentVolumeClaim", namespace=of_claim.namespace, name=of_claim.name,
                uid=of_claim.uid,
            )  # fmt: skip
            annotations = found.metadata.annotations | {"pv.kubernetes.io/bound-by-controller": "yes"}
            reserved = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, claim_ref=reference))
            self._write(VOLUMES, _with_metadata(reserved, annotations=annotations))

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
                response = result = self._evict(namespace, name, uid, dry_run)
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

    def _evict(self, namespace: str, name: str, uid: str, dry_run: bool) -> EvictionResult:
        pod = self._pod(namespace, name, uid)
        if pod.status.phase not in ("Pending", "Succeeded", "Failed") and pod.metadata.deletion_timestamp is None:
            budgets = [
                budget
                for budget in self.stored(BUDGETS)
                if budget.metadata.namespace == namespace and selects(budget.spec.selector, pod.metadata.labels)
            ]
            if len(budgets) > 1:
                raise error_for_status(500, "", "This pod has more than one PodDisruptionBudget")
            if budgets and (refused := self._spend(budgets[0], dry_run)):
                return refused
        if not dry_run:
            self._delete(pod)
        return EvictionResult(status=201)

    def _delete(self, pod: Pod) -> None:
        if self.terminating_first:
            self._write(PODS, _with_metadata(pod, deletion_timestamp=self._timestamp()))
        else:
            self.remove(PODS, pod.metadata.name, pod.metadata.namespace)

    def _pod(self, namespace: str, name: str, uid: str) -> Pod:
        return self._with_uid(PODS, namespace, name, uid)

    def _with_uid(self, resource: Resource[T], namespace: str, name: str, uid: str) -> T:
        found = self._find(resource, namespace, name)
        if uid != found.metadata.uid:
            message = f"the UID in the precondition ({uid}) does not match the UID in record ({found.metadata.uid})"
            raise error_for_status(409, "Conflict", message)
        return found

    def _spend(self, budget: PodDisruptionBudget, dry_run: bool) -> EvictionResult | None:
        allowed = budget.status.disruptions_allowed
        if allowed <= 0:
            return EvictionResult(
                status=429,
                reason="TooManyRequests",
                message=f"Cannot evict pod as it would violate the pod's disruption budget {budget.metadata.name}",
                disruption_budget=True,
                budget=budget.metadata.name,
            )
        if not dry_run:
            status = msgspec.structs.replace(budget.status, disruptions_allowed=allowed - 1)
            self._write(BUDGETS, msgspec.structs.replace(budget, status=status))
        return None

    def _store(self, resource: Resource[T]) -> dict[Key, T]:
        return cast("dict[Key, T]", self._objects.setdefault(_id(resource), {}))

    def _find(self, resource: Resource[T], namespace: str, name: str) -> T:
        try:
            return self._store(resource)[(namespace, name)]
        except KeyError:
            raise error_for_status(404, "NotFound", f'{resource.plural} "{name}" not found') from None

    def _write(self, resource: Resource[T], value: T) -> T:
        self._version += 1
        value = _with_metadata(value, resource_version=str(self._version))
        before = self._store(resource).get(_key(value))
        self._store(resource)[_key(value)] = value
        kind: Literal["added", "modified"] = "modified" if before else "added"
        self._record(resource, Change(kind=kind, object=value, resource_version=str(self._version)), before)
        return value

    def _record(self, resource: Resource[Any], change: Change[Any], before: Object | None) -> None:
        self._history.append(_Entry(version=self._version, resource=_id(resource), change=change, before=before))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _new_uid(self, resource: Resource[Any], key: Key) -> str:
        self._created[_id(resource), key] += 1
        times = self._created[_id(resource), key]
        return f"uid-{key[1]}" if times == 1 else f"uid-{key[1]}-{times}"

    def _timestamp(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)


def _with_texts(before: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The labels or annotations after a patch, which removes those that are None."""
    return {key: text for key, text in {**before, **changes}.items() if text is not None}


def _merged(quantities: Mapping[str, str], amounts: Mapping[str, int | None]) -> dict[str, str]:
    """The quantities after a patch, which removes those whose amount is None."""
    kept = {name: text for name, text in quantities.items() if name not in amounts}
    return kept | {name: str(amount) for name, amount in amounts.items() if amount is not None}


def _with_condition(status: PodStatus, condition: Condition) -> PodStatus:
    """The status with a condition, which replaces an earlier condition of its type."""
    conditions = [condition if other.type == condition.type else other for other in status.conditions]
    if condition not in conditions:
        conditions.append(condition)
    return msgspec.structs.replace(status, conditions=conditions)


def _id(resource: Resource[Any]) -> str:
    return f"{resource.plural}.{resource.group}/{resource.subresource}"


def _key(value: Object) -> Key:
    return value.metadata.namespace, value.metadata.name


def _with_metadata(value: T, **fields: Any) -> T:
    return msgspec.structs.replace(value, metadata=msgspec.structs.replace(value.metadata, **fields))


def _conflict(resource: Resource[Any], name: str, message: str) -> KubeError:
    return error_for_status(409, "Conflict", f'{resource.plural} "{name}": {message}')


def _seen(change: Change[T], was_selected: bool, is_selected: bool) -> Change[T] | None:
    """The change for a watch with a selector: "deleted" if the object no longer matches, "added" if it did not match
    before."""
    if change.kind == "deleted" or not is_selected:
        return msgspec.structs.replace(change, kind="deleted") if was_selected else None
    return change if was_selected else msgspec.structs.replace(change, kind="added")


def _matches_field(value: Object, selector: str) -> bool:
    """Whether an object matches a selector such as `spec.nodeName=a,metadata.name!=b`. Raises KubeError (400) for an
    unknown field."""
    for term in filter(None, selector.split(",")):
        field, expected, positive = _split(term)
        if field not in _FIELDS:
            raise error_for_status(400, "BadRequest", f"field label not supported: {field}")
        if (_FIELDS[field](value) == expected) is not positive:
            return False
    return True


def _matches_label(labels: Mapping[str, str], selector: str) -> bool:
    """Whether labels match a selector such as `app=web,tier!=db,key,!other`."""
    for term in filter(None, selector.split(",")):
        if "=" in term:
            key, expected, positive = _split(term)
            holds = (labels.get(key) == expected) is positive
        else:
            holds = (term.lstrip("!") in labels) is not term.startswith("!")
        if not holds:
            return False
    return True


def _split(term: str) -> tuple[str, str, bool]:
    """The key and the value of `a=b`, `a==b` or `a!=b`, and whether they must be equal."""
    key, _, expected = term.partition("=")
    return key.removesuffix("!"), expected.removeprefix("="), not key.endswith("!")
