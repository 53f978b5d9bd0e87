"""Writes the configuration of the webhook of hints, and removes the webhook from it while it is slow or unknown.

One of the annotators does it, at regular intervals: it creates a pod in a dry run, for which the API server calls the
webhook on the same way as for the pods of users, also while it is not called for those.
"""

import ssl
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import msgspec
import structlog
from prometheus_client import Gauge, Histogram

from equipoise.annotator.decisions.webhook_guard import (
    NOT_CALLED_YET,
    SLOW_SECONDS,
    Calls,
    Probe,
    after_probe,
    without_probe,
)
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.hints.policy import HINTED, INSTALL, NAME
from equipoise.contracts.hints.probe_pod import probe_pod
from equipoise.contracts.hints.webhook import (
    CONFIGURATION_KIND,
    PROBE,
    PROBE_KEY,
    STATE,
    WebhookConfiguration,
    ca_of,
    hinted_namespaces,
    serves_pods,
    webhooks,
)
from equipoise.contracts.kubernetes.objects.metadata import WholeObject
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import (
    PODS,
    WEBHOOK_CONFIGURATIONS,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    Resource,
)
from equipoise.runtime.kubernetes.fence import PROBE as REFUSED_NAME
from equipoise.runtime.kubernetes.fence import until_fenced
from equipoise.runtime.process.lifecycle import Runtime

log = structlog.get_logger()

FENCE = "equipoise-hints-webhook-fence"
"""The admission policy without which a ServiceAccount writes no configuration."""

PERIOD = 5.0
"""Seconds between two probes."""

CONFLICT_PERIOD = 0.5
"""Seconds until the next one, if somebody else has just written the configuration."""

ROUND_SECONDS = 10.0
"""The maximum for a probe with everything around it. A longer one is no measurement of the webhook."""

_REASON_LENGTH = 300
"""Characters of an error in the state."""

_KEY = "hints webhook"
"""The key by which a replica is chosen, and of the problem."""

_NAME = "equipoise-hints-probe"
"""Name of the pods."""


class WebhookGuard:
    """Whether the webhook is called, decided by one of the replicas."""

    def __init__(
        self,
        runtime: Runtime[AnnotatorSettings],
        *,
        is_ours: Callable[[str], bool],
        hinted: Callable[[], Collection[str]],
    ) -> None:
        """`is_ours`: whether this replica writes what has this key. `hinted`: the namespaces that have hints."""
        self._kube, self._clock, self._health = runtime.kube, runtime.clock, runtime.health
        self._settings = runtime.own.hints
        self._namespace = runtime.configuration.shared.kubernetes.namespace
        self._is_ours, self._hinted = is_ours, hinted
        self._pods: Resource[WholeObject] = msgspec.structs.replace(PODS, model=WholeObject)  # type: ignore[arg-type]
        self._calls: Calls | None = None
        """None: another replica decides, or this one has not read the configuration yet."""

        self._probed_at = 0.0
        """The time of the last probe that did not fail, or from which on this replica decides (monotonic seconds)."""

        self._seen: dict[str, float] = {}
        """The time at which a namespace was last known to have hints (monotonic seconds)."""

        self._duration = Histogram(
            "equipoise_annotator_hints_webhook_probe_seconds",
            "The time that the webhook of hints adds to the creation of a pod, by the probes of this replica.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, SLOW_SECONDS, 1),
            registry=runtime.metrics,
        )
        called = Gauge(
            "equipoise_annotator_hints_webhook_called",
            "1 while the webhook of hints is called for new pods; 0 also in replicas that do not decide it.",
            registry=runtime.metrics,
        )
        called.set_function(lambda: float(self._calls is not None and self._calls.enabled))

    async def run(self) -> NoReturn:
        refused = probe_pod(self._namespace, PROBE_KEY, name=REFUSED_NAME)
        await until_fenced(self._kube, FENCE, self._pods, refused, self._clock, self._health)
        while True:
            pause = PERIOD
            if self._is_ours(_KEY):
                try:
                    await run_with_guard(self._round(), timeout_after(self._clock, ROUND_SECONDS))
                except Conflict as error:
                    pause = CONFLICT_PERIOD
                    await self._without_probe(error)
                except NotFound:
                    self._calls = None
                    self._report(f"there is no {CONFIGURATION_KIND} {NAME}, by which pods get the hints: {INSTALL}")
                except (KubeError, TimeoutError) as error:
                    await self._without_probe(error)
                    self._report(f"it is unknown whether the webhook of hints responds: {error}")
            else:
                self._calls = None
                self._report(None)
            await self._clock.sleep(pause)

    async def _round(self) -> None:
        """Raises KubeError and TimeoutError."""
        found = await self._kube.get(WEBHOOK_CONFIGURATIONS, NAME)
        if self._calls is None:
            why = found.metadata.annotations.get(STATE) or NOT_CALLED_YET
            self._calls = Calls(enabled=serves_pods(found), why=why)
            self._probed_at = self._clock.monotonic()
            self._see(hinted_namespaces(found))
        self._see(self._hinted())
        ca, problem = self._ca(found)
        if ca:
            found = await self._write(found, ca)
            before, probe = self._calls, await self._probe()
            self._probed_at = self._clock.monotonic()
            self._calls = after_probe(before, probe, now=self._clock.monotonic(), at=self._time_of_day())
            if self._calls.enabled != before.enabled:
                log.warning("webhook of hints", state=self._calls.why)
                await self._write(found, ca)
            problem = problem or _problem(self._calls, probe)
        self._report(problem)

    async def _without_probe(self, error: Exception) -> None:
        """Removes the webhook when no probe has succeeded for a while. The CA in use remains: a new one may be what the
        API server refuses.
        """
        if self._calls is None:
            return
        before, seconds = self._calls, self._clock.monotonic() - self._probed_at
        why = str(error)[:_REASON_LENGTH]
        self._calls = without_probe(before, why, seconds=seconds, at=self._time_of_day())
        if self._calls.enabled != before.enabled:
            log.warning("webhook of hints", state=self._calls.why)
        if not self._calls.enabled:
            try:
                await run_with_guard(self._remove(), timeout_after(self._clock, ROUND_SECONDS))
            except (KubeError, TimeoutError) as failed:
                log.warning("webhook of hints not removed", error=str(failed))

    async def _remove(self) -> None:
        """Raises KubeError."""
        found = await self._kube.get(WEBHOOK_CONFIGURATIONS, NAME)
        if serves_pods(found):
            await self._write(found, ca_of(found))

    def _see(self, namespaces: Collection[str]) -> None:
        """Records namespaces with hints. A namespace remains for as long as hints are valid, also after a start, when
        the hints of most namespaces were not received yet.
        """
        now = self._clock.monotonic()
        self._seen |= dict.fromkeys(namespaces, now)
        self._seen = {name: at for name, at in self._seen.items() if now - at < self._settings.validity}

    def _ca(self, found: WebhookConfiguration) -> tuple[bytes, str | None]:
        """The CA of the webhook's certificate; the one in use, and why, if the file cannot be used."""
        path = self._settings.webhook.ca_file
        try:
            text = Path(path).read_text()
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            return ca_of(found), f"annotator.hints.webhook.caFile: {path} has no certificates in PEM format: {why}"
        return text.encode(), None

    async def _write(self, found: WebhookConfiguration, ca: bytes) -> WebhookConfiguration:
        """The configuration as it should be. Raises KubeError."""
        assert self._calls is not None
        wanted = webhooks(
            ca=ca,
            namespace=self._namespace,
            port=self._settings.webhook.service_port,
            hinted=self._seen,
            pods=self._calls.enabled,
        )
        annotations = {**found.metadata.annotations, STATE: self._calls.why}
        if (found.webhooks, found.metadata.annotations) == (wanted, annotations):
            return found
        metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
        return await self._kube.replace(
            WEBHOOK_CONFIGURATIONS, WebhookConfiguration(metadata=metadata, webhooks=wanted)
        )

    async def _probe(self) -> Probe:
        """Raises KubeError. A pod that is refused shows that the webhook is slow, but not that it is fast."""
        seconds, created = await self._create({PROBE: "true"})
        if seconds >= SLOW_SECONDS:  # by another webhook, or a busy API server?
            without, _ = await self._create({})
            seconds = max(0.0, seconds - without)
        if isinstance(created, Forbidden):
            if seconds < SLOW_SECONDS:
                raise created
            responded = False
        else:
            responded = created.metadata.annotations.get(HINTED, "").startswith(f"{PROBE_KEY}@")
        self._duration.observe(seconds)
        return Probe(seconds=seconds, responded=responded)

    async def _create(self, labels: dict[str, str]) -> tuple[float, WholeObject | Forbidden]:
        """How long a pod with these labels takes, and the pod, or why a policy or quota refuses it: after the webhook.

        Raises KubeError.
        """
        begun = self._clock.monotonic()
        pod = probe_pod(self._namespace, PROBE_KEY, name=_NAME, labels=labels)
        created: WholeObject | Forbidden
        try:
            created = await self._kube.create(self._pods, pod, dry_run=True)
        except Forbidden as refused:
            created = refused
        return self._clock.monotonic() - begun, created

    def _time_of_day(self) -> str:
        return datetime.fromtimestamp(self._kube.server_time(self._clock.now()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _report(self, problem: str | None) -> None:
        self._health.set_problem(_KEY, problem)


def _problem(calls: Calls, probe: Probe) -> str | None:
    if not probe.responded and probe.seconds < SLOW_SECONDS:
        return (
            "new pods get no placement hints: the API server does not reach the webhook, or does not trust its "
            "certificate (see the pods of equipoise-hints-webhook)"
        )
    if calls.enabled or calls.why == NOT_CALLED_YET:
        return None
    return f"new pods get no placement hints: the webhook is {calls.why}"
