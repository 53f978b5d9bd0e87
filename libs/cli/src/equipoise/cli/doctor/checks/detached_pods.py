"""Looks for pods that a move without a gap has detached from their ReplicaSet, and that no binder ends any more."""

from collections.abc import Iterable

from equipoise.binder.shell.ledger_store import NotInstalled, read_installed
from equipoise.binder.state.ledger import LedgerClosed
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.terminal import count
from equipoise.contracts.eviction.detached import DETACHED_HASH, is_marked_detached
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.kubernetes.client import PODS, Kube, KubeError, find, metadata_of

SUBJECT = "detached pods"

MOST_PODS = 20
"""The largest number of pods that are named: any tenant can create many with the annotation."""


async def detached_pods(environment: Environment) -> list[Finding]:
    try:
        return await _findings(environment.api(), environment.settings.shared.kubernetes.namespace)
    except (KubeError, NotInstalled) as error:
        return [Finding("unknown", SUBJECT, f"not checked: {error}")]


async def _findings(kube: Kube, namespace: str) -> list[Finding]:
    """The pods are listed before the ledger is read, so a move that begins meanwhile is no finding."""
    marked = [pod async for page in kube.pages(metadata_of(PODS)) for pod in _marked(each.metadata for each in page)]
    stored = await read_installed(kube, namespace)
    if isinstance(stored, LedgerClosed) and marked:
        return [Finding("unknown", SUBJECT, f"{_named(marked)}: whether they are being moved is unknown: {stored.why}")]
    moves = () if isinstance(stored, LedgerClosed) else stored.ledger.surge_moves
    moved = {move.intent.pod_uid for move in moves}
    left = [pod for pod in marked if pod.uid not in moved]
    findings = [_left_over(pod) for pod in left[:MOST_PODS] if await _is_left(kube, pod)]
    if more := left[MOST_PODS:]:
        findings.append(Finding("warning", SUBJECT, f"{_named(more)} were not looked at"))
    return findings or [Finding("ok", SUBJECT, f"{len(marked) - len(left)}, and no left-over of a move")]


def _marked(pods: Iterable[ObjectMeta]) -> Iterable[ObjectMeta]:
    return (pod for pod in pods if is_marked_detached(pod) and pod.deletion_timestamp is None)


async def _is_left(kube: Kube, pod: ObjectMeta) -> bool:
    """Whether the pod is still the same: its move may have ended since it was listed."""
    found = await find(kube, metadata_of(PODS), pod.name, pod.namespace)
    return found is not None and found.metadata.uid == pod.uid and any(_marked([found.metadata]))


def _left_over(pod: ObjectMeta) -> Finding:
    message = (
        f"it has the annotation {DETACHED_HASH} and no owner, and the ledger has no move of it: a move without a gap "
        "has left it, or somebody wrote the annotation. It runs until its node stops, and `kubectl drain` refuses it"
    )
    fix = f"when its workload is ready without it: kubectl delete pod --namespace {pod.namespace} {pod.name}"
    return Finding("warning", f"pod {pod.namespace}/{pod.name}", message, fix)


def _named(pods: list[ObjectMeta]) -> str:
    return f"{count(len(pods), 'pod')} without owner that have the annotation {DETACHED_HASH}"
