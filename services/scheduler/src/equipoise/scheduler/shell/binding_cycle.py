"""The binding cycle of one pod: what plugins do before, the volumes of its claims, and the binding itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import CLAIMS, PODS, Kube, KubeError, NotFound
from equipoise.runtime.process.clock import Clock
from equipoise.scheduler.shell.http_extender import ExtenderClient
from equipoise.scheduler.state.attempt import Attempt
from equipoise.scheduling.framework.plugin import Bind, Plugin, PostBind, PreBind
from equipoise.scheduling.framework.status import Code, PluginStatus
from equipoise.scheduling.model.volumes import SELECTED_NODE, ClaimKey, is_fully_bound
from equipoise.scheduling.plugins.volumes.volume_binding import ChosenVolumes, VolumeBinding
from equipoise.scheduling.scheduler import EXTENDER, ExtenderFailed

VOLUME_SECONDS = 600.0
"""How long a pod waits until its claims are bound; the default of bindTimeoutSeconds."""


class NotBound(Exception):
    """Why a pod is not bound. `plugin`: the plugin that failed or refused; empty: it was the API server. `obsolete`:
    the pod is gone, or has another node. `rejected`: the plugin refused the pod; it did not fail."""

    def __init__(self, why: str, plugin: str = "", *, obsolete: bool = False, rejected: bool = False) -> None:
        super().__init__(why)
        self.plugin = plugin
        self.obsolete = obsolete
        self.rejected = rejected


class Storage:
    """Claims and volumes as last reported."""

    def __init__(
        self, claims: Mapping[ClaimKey, PersistentVolumeClaim], volumes: Mapping[ClaimKey, PersistentVolume]
    ) -> None:
        """The mappings are by namespace and name. The caller changes them, and then calls `changed`."""
        self._claims = claims
        self._volumes = volumes
        self._changed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def claim(self, key: ClaimKey) -> PersistentVolumeClaim:
        """Raises NotBound."""
        if key not in self._claims:
            raise NotBound(f"the claim {key[0]}/{key[1]} is gone", VolumeBinding.name)
        return self._claims[key]

    def volume(self, name: str) -> PersistentVolume:
        """Raises NotBound."""
        if ("", name) not in self._volumes:
            raise NotBound(f"the volume {name} is gone", VolumeBinding.name)
        return self._volumes["", name]

    async def until_bound(self, chosen: ChosenVolumes, node: str) -> None:
        """Returns once all claims are bound. Raises NotBound if a provisioner gives up: it removes the annotation."""
        while True:
            written = [*map(self.claim, chosen.provisioned), *map(self.claim, chosen.bound)]
            if all(map(is_fully_bound, written)):
                return
            for claim in map(self.claim, chosen.provisioned):
                if not is_fully_bound(claim) and claim.metadata.annotations.get(SELECTED_NODE, node) != node:
                    raise NotBound(f"the volume of claim {claim.metadata.name} is for another node", VolumeBinding.name)
            await self._changed.wait()


class BindingCycle:
    def __init__(self, kube: Kube, clock: Clock, storage: Storage, extenders: Sequence[ExtenderClient] = ()) -> None:
        self._kube = kube
        self._clock = clock
        self._storage = storage
        self._extenders = [each for each in extenders if each.settings.bind_verb]

    async def bind(self, attempt: Attempt, waiting: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Raises NotBound. `waiting` surrounds the time in which this pod waits for its volumes."""
        state, pod, node = attempt.state, attempt.pod, attempt.node
        assert state is not None
        await self._bind_volumes(attempt, waiting)
        for plugin in attempt.framework.plugins("preBind"):
            assert isinstance(plugin, PreBind)
            _check(plugin, await _called(plugin, "preBind", plugin.pre_bind(state, pod, node)))
        for extender in self._extenders:
            if extender.is_interested(pod):
                await self._delegate(extender, attempt)
                return
        for plugin in attempt.framework.plugins("bind"):
            assert isinstance(plugin, Bind)
            status = await _called(plugin, "bind", plugin.bind(state, pod, node))
            if status.code != Code.SKIP:
                _check(plugin, status)
                return
        try:
            await self._kube.bind(pod.namespace, pod.name, node, uid=pod.uid)
        except KubeError as error:
            await self._check_bound(attempt, error)

    async def _delegate(self, extender: ExtenderClient, attempt: Attempt) -> None:
        try:
            await asyncio.to_thread(extender.bind, attempt.pod, attempt.node)
        except ExtenderFailed as error:
            raise NotBound(str(error), EXTENDER) from error

    async def _check_bound(self, attempt: Attempt, failure: KubeError) -> None:
        """Returns if the pod is bound nevertheless: by this request or an earlier one whose response was lost."""
        pod = attempt.pod
        try:
            found = await self._kube.get(PODS, pod.name, pod.namespace)
        except NotFound:
            raise NotBound(str(failure), obsolete=True) from failure
        except KubeError:
            raise NotBound(str(failure)) from failure
        obsolete = found.metadata.uid != pod.uid or bool(found.spec.node_name)
        if found.metadata.uid != pod.uid or found.spec.node_name != attempt.node:
            raise NotBound(str(failure), obsolete=obsolete) from failure

    async def _bind_volumes(self, attempt: Attempt, waiting: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Records which volume each claim gets; controllers bind and provision them."""
        assert attempt.state is not None
        for plugin in attempt.framework.plugins("reserve"):
            if not isinstance(plugin, VolumeBinding):
                continue
            chosen = plugin.chosen(attempt.state, attempt.node)
            if not chosen.bound and not chosen.provisioned:
                return
            try:
                for key, name in chosen.bound.items():
                    await self._kube.reserve_volume(self._storage.volume(name), self._storage.claim(key))
                for key in chosen.provisioned:
                    await self._select_node(self._storage.claim(key), attempt.node)
                async with waiting():
                    bound = self._storage.until_bound(chosen, attempt.node)
                    await run_with_guard(bound, timeout_after(self._clock, VOLUME_SECONDS))
            except KubeError as error:
                raise NotBound(f"binding volumes: {error}", plugin.name) from error
            except TimeoutError as error:
                raise NotBound("binding volumes: timed out waiting for the condition", plugin.name) from error

    async def _select_node(self, claim: PersistentVolumeClaim, node: str) -> None:
        if SELECTED_NODE in claim.metadata.annotations:
            return
        metadata = claim.metadata
        await self._kube.annotate(
            CLAIMS,
            metadata.name,
            {SELECTED_NODE: node},
            namespace=metadata.namespace,
            uid=metadata.uid,
            version=metadata.resource_version,
        )


def post_bind(attempt: Attempt) -> list[NotBound]:
    """Calls the plugins. Returns the errors that they raised."""
    errors = []
    assert attempt.state is not None
    for plugin in attempt.framework.plugins("postBind"):
        assert isinstance(plugin, PostBind)
        try:
            plugin.post_bind(attempt.state, attempt.pod, attempt.node)
        except Exception as error:
            errors.append(_failed(plugin, "postBind", error))
    return errors


async def _called(plugin: Plugin, point: str, call: Awaitable[PluginStatus]) -> PluginStatus:
    """Raises NotBound whatever the plugin raises."""
    try:
        return await call
    except Exception as error:
        raise _failed(plugin, point, error) from error


def _failed(plugin: Plugin, point: str, error: Exception) -> NotBound:
    return NotBound(f"plugin {plugin.name} failed in {point}: {type(error).__name__}: {error}", plugin.name)


def _check(plugin: Plugin, status: PluginStatus) -> None:
    if not status.is_success:
        raise NotBound("; ".join(status.reasons) or f"refused by plugin {plugin.name}", plugin.name)
