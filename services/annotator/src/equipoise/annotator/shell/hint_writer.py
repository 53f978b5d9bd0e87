"""Writes the placement hints of each namespace for the admission policy or webhook: one object in each.

An object is read before the first write to it, and replaced as a whole, with its version: so a replica that was
suspended between deciding and writing overwrites nothing. Nothing is deleted: hints expire by themselves, and the
policy, or the configuration of the webhook, owns the objects, which are deleted with it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

import msgspec
from prometheus_client import Counter, Gauge

from equipoise.annotator.decisions.hint_write import WrittenHints, decide_hints
from equipoise.annotator.decisions.write_decision import DueWrite, retry_backoff
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shell.work_queue import ObjectQueue
from equipoise.contracts.bounds import CLOCK_TOLERANCE
from equipoise.contracts.hints.definition import GROUP, KIND
from equipoise.contracts.hints.hints_object import MAX_BYTES, HintsObject, stored_hints, workload_hints
from equipoise.contracts.hints.policy import INSTALL, NAME, UNSUPPORTED
from equipoise.contracts.hints.webhook import CONFIGURATION_KIND
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND, supported_version
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference
from equipoise.contracts.messages.placement import PlacementHints, WorkloadHint
from equipoise.runtime.async_tools.batching import in_batches
from equipoise.runtime.async_tools.rate_limiter import RateLimiter
from equipoise.runtime.kubernetes.client import (
    HINTS,
    WEBHOOK_CONFIGURATIONS,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    mutating_policies,
)
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.kubernetes.paced_requests import RETRY_PERIOD, PacedRequests, concerns_one_object
from equipoise.runtime.process.lifecycle import Runtime

FENCE = "equipoise-hints-fence"
"""The admission policy that restricts this ServiceAccount. No hints are written before it is in effect."""

POLICY_PERIOD = 30.0
"""Seconds between two checks of the policy that adds the hints to pods."""

CHECK_PERIOD = 5.0
"""Seconds between two checks of all namespaces."""

WRITERS = 4
"""Tasks: a slow request does not block others."""

NAMESPACES_PER_BATCH = 5
"""Namespaces that are compared without a pause. Each has at most some hundred workloads: this takes milliseconds."""

MAX_BACKOFF = 120.0
"""The longest pause after a failed write, in seconds."""

_OLD_DEFINITION = f"the API server drops the hints, because the kind {KIND} is that of an earlier version: {INSTALL}"


class _Newest(msgspec.Struct, frozen=True, kw_only=True):
    """The newest hints of a namespace."""

    computed_at: float
    replacing: bool
    """A change is written at once."""

    hints: Mapping[str, WorkloadHint]
    """The hints for which the object has space."""

    stored: HintsObject
    """The object with these hints, without metadata and time."""

    left_out: int
    """Workloads for whose hints the object has no space."""


@dataclass(kw_only=True)
class _Namespace:
    """The newest hints of a namespace, and what its object holds."""

    newest: _Newest
    is_read: bool = False
    version: str = ""
    """The resource version of the object; empty: there is none."""

    written: WrittenHints | None = None
    not_before: float = 0.0
    """The end of the backoff (Unix seconds)."""

    backoff: float = 0.0
    """The last backoff in seconds; 0 after a write."""

    refusal: str = ""
    """The reason for which the API server refused the last write."""

    busy: bool = False
    """Being read or written; considered again after that."""


class HintWriter:
    """The objects of this replica's namespaces."""

    def __init__(
        self,
        runtime: Runtime[AnnotatorSettings],
        *,
        is_ours: Callable[[str], bool],
        interval: Callable[[float], float],
        results: Counter,
    ) -> None:
        """`is_ours`: whether this replica writes the object with this key. `interval`: the seconds between two requests
        of this replica, for a rate that all replicas share.
        """
        self._kube, self._clock, self._health = runtime.kube, runtime.clock, runtime.health
        self._settings = settings = runtime.own.hints
        self._by_webhook = settings.admission == "webhook"
        self._own_namespace = runtime.configuration.shared.kubernetes.namespace
        self._is_ours = is_ours
        self._results = results
        self._limiter = RateLimiter(runtime.clock, lambda: interval(settings.requests_per_second))
        self._requests = PacedRequests(runtime.clock, self._limiter)
        self._namespaces: dict[str, _Namespace] = {}
        self._due = ObjectQueue()
        self._policy: OwnerReference | None = None
        """What adds the hints to pods, and owns them; None: nothing may be written."""

        for name, text, value in (
            ("hints_pending", "Namespaces whose hints wait to be written.", lambda: float(len(self._due))),
            ("hints_left_out", "Workloads for whose hints their object has no space.", self._left_out),
        ):
            Gauge(f"equipoise_annotator_{name}", text, registry=runtime.metrics).set_function(value)

    @property
    def hinted_namespaces(self) -> list[str]:
        """The namespaces that have hints, whichever replica writes them."""
        return [name for name, namespace in self._namespaces.items() if namespace.newest.hints]

    def _left_out(self) -> float:
        return float(sum(namespace.newest.left_out for namespace in list(self._namespaces.values())))

    # Decide

    def on_hints(self, message: PlacementHints, now: float) -> bool:
        """False for hints that are not newer than those we have, or that are dated in the future."""
        namespace = self._namespaces.get(message.namespace)
        latest = now + CLOCK_TOLERANCE
        # Hints of the future were received while this clock was ahead.
        earlier = namespace.newest.computed_at if namespace and namespace.newest.computed_at <= latest else -math.inf
        if not earlier < message.computed_at <= latest:
            return False
        hints = message.by_workload
        stored = stored_hints(hints, MAX_BYTES)
        kept = {key: hint for key, hint in hints.items() if key in stored.workloads}
        newest = _Newest(
            computed_at=message.computed_at,
            replacing=message.replacing,
            hints=kept,
            stored=stored,
            left_out=len(hints) - len(kept),
        )
        if namespace is None:
            self._namespaces[message.namespace] = _Namespace(newest=newest)
        else:
            namespace.newest = newest
        self._consider(message.namespace)
        return True

    async def _check(self) -> None:
        """Consider all namespaces, and report problems.

        A namespace may be due without a new message: after the minimum interval, or because its replica ended.
        """
        now, late, refusals = self._now(), 0, []
        async for batch in in_batches(self._namespaces.items(), NAMESPACES_PER_BATCH):
            for name, namespace in batch:
                # Its hints are no longer computed (it may be deleted), or were computed by a clock that was ahead.
                if not now < self._until(namespace) <= now + self._settings.validity + CLOCK_TOLERANCE:
                    self._namespaces.pop(name, None)
                    self._due.put(name, None)
                    continue
                self._consider(name)
                late += (
                    namespace.written is not None and bool(namespace.written.hints) and namespace.written.until <= now
                )
                refusals += [namespace.refusal] if namespace.refusal else []
        why = f"{late} namespaces have expired hints, because writes wait: raise annotator.hints.requestsPerSecond"
        self._health.set_problem("hints expired", why if late else None)
        self._health.set_problem("hints refused", refusals[0] if refusals else None)

    def _consider(self, name: str) -> None:
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.busy:
            return
        if not self._is_ours(_key(name)):
            namespace.is_read, namespace.written, namespace.refusal = False, None, ""  # another replica writes it now
        self._due.put(name, self._decide(name))

    def _decide(self, name: str) -> DueWrite | None:
        """Whether to write the object of this namespace now, or to read it first."""
        namespace = self._namespaces.get(name)
        if namespace is None or self._policy is None or not self._is_ours(_key(name)):
            return None
        if self._clock.monotonic() < namespace.not_before:
            return None
        if not namespace.is_read:
            return DueWrite(why="not read before")
        wanted = self._wanted(namespace, self._policy)
        return decide_hints(
            namespace.written, wanted, now=self._now(), threshold=self._settings, replacing=namespace.newest.replacing
        )

    def _wanted(self, namespace: _Namespace, policy: OwnerReference) -> WrittenHints:
        return WrittenHints(until=self._until(namespace), hints=namespace.newest.hints, owner=policy.uid)

    def _until(self, namespace: _Namespace) -> float:
        """The time at which the hints expire. It counts from their computation, not from the write: writing hints again
        must not renew those of a scorer that ended.
        """
        return self._kube.server_time(namespace.newest.computed_at) + self._settings.validity

    def _now(self) -> float:
        return self._kube.server_time(self._clock.now())

    # Read, write

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_policy(), name="check the policy of hints")
            tasks.create_task(self._check_regularly(), name="check all hints")
            for number in range(WRITERS):
                tasks.create_task(self._work(), name=f"write hints {number}")

    async def _check_regularly(self) -> NoReturn:
        while True:
            await self._check()
            await self._clock.sleep(CHECK_PERIOD)

    async def _check_policy(self) -> NoReturn:
        """Nothing is written while no policy would add the hints, or while this account is not restricted."""
        until = datetime.fromtimestamp(0, UTC)
        probe = HintsObject(metadata=ObjectMeta(name=PROBE, namespace=self._own_namespace), until=until)
        while True:
            before, problem = self._policy, None
            try:
                policy, problem = await (self._find_webhook() if self._by_webhook else self._find_policy())
                if policy and not before:
                    await until_fenced(self._kube, FENCE, HINTS, probe, self._clock, self._health)
                self._policy = policy
            except KubeError as error:
                problem = f"it is unknown whether the API server adds placement hints to pods: {error}"
            self._health.set_problem("hints", problem)
            if self._policy != before:
                await self._check()
            await self._clock.sleep(POLICY_PERIOD)

    async def _find_policy(self) -> tuple[OwnerReference | None, str | None]:
        """The policy, or why no hints can be written."""
        version = supported_version(await self._kube.served_versions(API_GROUP, POLICY_KIND))
        if version is None:
            return None, UNSUPPORTED
        if not await self._kube.served_versions(GROUP, KIND):
            return None, f"the API server does not know the kind {KIND}: {INSTALL}"
        try:
            policy = await self._kube.get(mutating_policies(version), NAME)
        except NotFound:
            return None, f"there is no {POLICY_KIND} {NAME}, which would add the hints to pods: {INSTALL}"
        reference = OwnerReference(
            api_version=f"{API_GROUP}/{version}", kind=POLICY_KIND, name=NAME, uid=policy.metadata.uid
        )
        return reference, None

    async def _find_webhook(self) -> tuple[OwnerReference | None, str | None]:
        """The configuration of the webhook, or why no hints can be written."""
        if not await self._kube.served_versions(GROUP, KIND):
            return None, f"the API server does not know the kind {KIND}: {INSTALL}"
        try:
            configuration = await self._kube.get(WEBHOOK_CONFIGURATIONS, NAME)
        except NotFound:
            return None, f"there is no {CONFIGURATION_KIND} {NAME}, by which pods get the hints: {INSTALL}"
        kind = WEBHOOK_CONFIGURATIONS.kind
        version = f"{WEBHOOK_CONFIGURATIONS.group}/{WEBHOOK_CONFIGURATIONS.version}"
        return OwnerReference(api_version=version, kind=kind, name=NAME, uid=configuration.metadata.uid), None

    async def _work(self) -> NoReturn:
        while True:
            name = await self._due.take()
            namespace = self._namespaces.get(name)
            if namespace is None:
                continue
            namespace.busy = True
            try:
                await (self._write(name, namespace) if namespace.is_read else self._read(name, namespace))
            except Conflict:
                namespace.is_read = False  # another replica wrote it
            except NotFound:
                self._on_not_found(name, namespace)
            except (KubeError, TimeoutError) as error:
                self._on_error(name, namespace, error)
            finally:
                namespace.busy = False
            self._consider(name)

    async def _read(self, name: str, namespace: _Namespace) -> None:
        if not await self._limiter.acquire(lambda: self._decide(name)):
            return
        try:
            stored = await self._send(self._kube.get(HINTS, NAME, name))
        except NotFound:
            namespace.is_read, namespace.version, namespace.written = True, "", None
            return
        namespace.is_read, namespace.version = True, stored.metadata.resource_version
        namespace.written = _written(stored)

    async def _write(self, name: str, namespace: _Namespace) -> None:
        if not await self._limiter.acquire(lambda: self._decide(name)) or self._policy is None:
            return
        wanted = self._wanted(namespace, self._policy)
        metadata = ObjectMeta(
            name=NAME, namespace=name, resource_version=namespace.version, owner_references=[self._policy]
        )
        until = datetime.fromtimestamp(wanted.until, UTC)
        value = msgspec.structs.replace(namespace.newest.stored, metadata=metadata, until=until)
        writing = self._kube.replace(HINTS, value) if namespace.version else self._kube.create(HINTS, value)
        stored = await self._send(writing)
        namespace.version, namespace.written = stored.metadata.resource_version, wanted
        namespace.backoff, namespace.refusal = 0.0, ""
        if value.distinct_hints:
            self._health.set_problem("definition", None if stored.distinct_hints else _OLD_DEFINITION)
        self._results.labels(KIND, "written").inc()

    async def _send(self, request: Awaitable[HintsObject]) -> HintsObject:
        stored = await self._requests.send(request)
        self._health.set_problem("api server", None)
        return stored

    def _on_not_found(self, name: str, namespace: _Namespace) -> None:
        """Reads the object again if it was deleted. If it cannot be created either, its namespace was deleted."""
        if namespace.version:
            namespace.is_read = False
        else:
            self._on_namespace_deleted(name, namespace)

    def _on_namespace_deleted(self, name: str, namespace: _Namespace) -> None:
        self._results.labels(KIND, "gone").inc()
        if self._namespaces.get(name) is namespace:
            del self._namespaces[name]

    def _on_error(self, name: str, namespace: _Namespace, error: KubeError | TimeoutError) -> None:
        if isinstance(error, Forbidden) and "is being terminated" in error.message:
            self._on_namespace_deleted(name, namespace)
            return
        namespace.backoff = retry_backoff(namespace.backoff, RETRY_PERIOD, MAX_BACKOFF)
        namespace.not_before = self._clock.monotonic() + namespace.backoff
        if concerns_one_object(error):
            self._results.labels(KIND, "refused").inc()
            namespace.refusal = f"the hints of namespace {name} cannot be written: {error}"
        else:
            self._results.labels(KIND, "failed").inc()
            self._health.set_problem("api server", f"the API server does not accept placement hints: {error}")


def _key(namespace: str) -> str:
    """The key by which a replica is chosen."""
    return f"hints/{namespace}"


def _written(stored: HintsObject) -> WrittenHints | None:
    """The hints that an object holds; None for an object without a time, which we did not write."""
    if stored.until is None:
        return None
    owner = stored.metadata.owner_references[0].uid if stored.metadata.owner_references else ""
    return WrittenHints(until=stored.until.timestamp(), hints=workload_hints(stored), owner=owner)
