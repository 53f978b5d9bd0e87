"""Whether new pods of the cluster get placement hints, from the API server."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from equipoise.cli.hints.due import due_text, first_hints_due, published_interval
from equipoise.cli.terminal import count, duration
from equipoise.contracts.hints.definition import GROUP, KIND
from equipoise.contracts.hints.hints_object import HintsObject, remaining_validity
from equipoise.contracts.hints.policy import NAME, UNSUPPORTED
from equipoise.contracts.hints.webhook import NO_LONGER_CALLED, STATE, WebhookConfiguration, serves_pods
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND, supported_version
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.kubernetes.client import (
    HINTS,
    WEBHOOK_CONFIGURATIONS,
    Kube,
    KubeError,
    find,
    mutating_bindings,
    mutating_policies,
)
from equipoise.runtime.process.clock import Clock


class HintsState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the placement hints of all namespaces have an effect."""

    state: Literal["on", "off", "not due yet", "without effect", "unknown"]
    """off: the kind of the hints is not installed. without effect: it is installed, but new pods get no hints. not due
    yet: as `without effect`, shortly after an installation or a start."""

    why: str = ""
    """Why the state is `not due yet`, `without effect` or `unknown`."""

    admission: Literal["policy", "webhook"] | None = None
    """What adds the hints to pods; None: nothing does, or it is unknown."""

    namespaces: int | None = None
    """The number of namespaces with hints that have not expired."""

    workloads: int | None = None
    expired: int | None = None
    """The number of namespaces with hints that have expired."""

    valid_for: float | None = None
    """Seconds until the first of the valid hints expire, if they are not renewed."""

    def __str__(self) -> str:
        if self.state != "on" or self.namespaces is None or self.workloads is None or self.valid_for is None:
            return f"{self.state} ({self.why})" if self.why else self.state
        text = "on" if self.admission is None else f"on, by the {self.admission}"
        text += f", for {count(self.workloads, 'workload')} in {count(self.namespaces, 'namespace')}"
        text += f", valid for {duration(self.valid_for)} or longer"
        return f"{text}; expired in {count(self.expired, 'namespace')}" if self.expired else text


async def read_hints_state(kube: Kube, clock: Clock, published: Sequence[EffectiveConfiguration] = ()) -> HintsState:
    """Reads the kind, the policy and its binding or the configuration of the webhook, and the hints.

    `published`: what the services published in the last hour; empty if that is not known.
    """
    try:
        if not await kube.served_versions(GROUP, KIND):
            return HintsState(state="off")
        version = supported_version(await kube.served_versions(API_GROUP, POLICY_KIND))
        admission: Literal["policy", "webhook"] = "policy"
        installed: Object | None = None if version is None else await _policy(kube, version)
        if installed is None:
            webhook = await find(kube, WEBHOOK_CONFIGURATIONS, NAME)
            if webhook is None:
                why = UNSUPPORTED if version is None else _NO_POLICY
                return HintsState(state="without effect", why=why)
            admission, installed = "webhook", webhook
        stored = await kube.list(HINTS)
    except KubeError as error:
        return HintsState(state="unknown", why=str(error))
    now = kube.server_time(clock.now())
    state = msgspec.structs.replace(hints_state(stored, now), admission=admission)
    if isinstance(installed, WebhookConfiguration) and not serves_pods(installed):
        why = installed.metadata.annotations.get(STATE, "not called yet")
        state = HintsState(state="without effect", why=f"the webhook is {why}", admission="webhook")
        if why.startswith(NO_LONGER_CALLED):
            return state
    created = installed.metadata.creation_timestamp
    due = first_hints_due(created.timestamp() if created else None, published, published_interval(published), now)
    return until_due(state, due - now)


def until_due(state: HintsState, remaining: float) -> HintsState:
    """The state; hints that have no effect are `not due yet` while the first ones are due in `remaining` seconds."""
    if state.state != "without effect" or remaining <= 0:
        return state
    return msgspec.structs.replace(state, state="not due yet", why=f"{state.why}; {due_text(remaining)}")


_NO_POLICY = f"there is no {POLICY_KIND} {NAME}, or no binding of it, and no webhook in its place"


async def _policy(kube: Kube, version: str) -> Object | None:
    """The policy; None if it is missing, or its binding. Raises KubeError."""
    policy = await find(kube, mutating_policies(version), NAME)
    return policy if policy is not None and await find(kube, mutating_bindings(version), NAME) is not None else None


def hints_state(stored: Sequence[HintsObject], now: float) -> HintsState:
    """The state where something adds hints to pods. `now`: the time of the API server's clock."""
    validities = [
        (seconds, len(each.keys)) for each in stored if (seconds := remaining_validity(each, now)) is not None
    ]
    valid = [(seconds, workloads) for seconds, workloads in validities if seconds > 0]
    expired = len(validities) - len(valid)
    if valid:
        return HintsState(
            state="on",
            namespaces=len(valid),
            workloads=sum(workloads for _, workloads in valid),
            expired=expired,
            valid_for=min(valid)[0],
        )
    newest = f"the newest have expired {duration(-max(validities)[0])} ago" if validities else "none were written"
    return HintsState(state="without effect", why=f"{newest}: `equipoise doctor` finds why", expired=expired)
