"""Looks for pods that a move without a gap has detached from their ReplicaSet, and that no binder ends by itself."""

from collections.abc import Iterable

from equipoise.binder.shell.ledger_store import NotInstalled, read_installed
from equipoise.binder.shell.surge_reads import read_leaving
from equipoise.binder.state.ledger import LedgerClosed
from equipoise.binder.state.surge_move import SurgeMove, restore_commands
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.terminal import count
from equipoise.contracts.eviction.detached import DETACHED_HASH, is_marked_detached
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.kubernetes.client import PODS, Forbidden, Kube, KubeError, find, metadata_of

SUBJECT = "detached pods"

PERMITTED = (
    "run `equipoise doctor detached` as a user who may list all pods. `helm test` may not: a list of pods has the "
    "environment variables of all containers"
)
MOST_PODS = 20
"""The largest number of pods that are named: any tenant can create many with the annotation."""


async def detached_pods(environment: Environment) -> list[Finding]:
    try:
        namespace = environment.settings.shared.kubernetes.namespace
        return await _findings(environment.api(), namespace, environment.clock.now())
    except Forbidden as error:
        return [Finding("unknown", SUBJECT, f"not checked: {error}", PERMITTED)]
    except (KubeError, NotInstalled) as error:
        return [Finding("unknown", SUBJECT, f"not checked: {error}")]


async def _findings(kube: Kube, namespace: str, now: float) -> list[Finding]:
    """The pods are listed before the ledger is read, so a move that begins meanwhile is no finding."""
    marked = [pod async for page in kube.pages(metadata_of(PODS)) for pod in _marked(each.metadata for each in page)]
    stored = await read_installed(kube, namespace)
    if isinstance(stored, LedgerClosed) and marked:
        return [Finding("unknown", SUBJECT, f"{_named(marked)}: whether they are being moved is unknown: {stored.why}")]
    moves = () if isinstance(stored, LedgerClosed) else stored.ledger.surge_moves
    moved = {move.intent.pod_uid for move in moves}
    left = [pod for pod in marked if pod.uid not in moved]
    findings = [_left_over(pod) for pod in left[:MOST_PODS] if await _is_left(kube, pod)]
    findings += [finding for move in moves if (finding := await _open_move(kube, move, now)) is not None]
    if more := left[MOST_PODS:]:
        findings.append(Finding("warning", SUBJECT, f"{_named(more)} were not looked at"))
    return findings or [Finding("ok", SUBJECT, f"{len(marked) - len(left)}, and no left-over of a move")]


async def _open_move(kube: Kube, move: SurgeMove, now: float) -> Finding | None:
    """The pod of a move that does not end by itself, or is in the way; None if there is no such pod."""
    intent = move.intent
    pod = await find(kube, metadata_of(PODS), intent.pod, intent.namespace)
    if pod is None or pod.metadata.uid != intent.pod_uid or pod.metadata.controller is not None:
        return None
    edited = pod.metadata.annotations.get(DETACHED_HASH) != move.template_hash
    late = now > move.ready_by
    leaving = await read_leaving(kube, intent.node)
    if not (edited or late or leaving):
        return None
    reasons = [f"node {intent.node}: {leaving}, and `kubectl drain` refuses the pod"] if leaving else []
    reasons += ["the workload was not ready without it in time"] if late else []
    reasons += (
        [f"somebody removed or edited its annotation {DETACHED_HASH}, so no binder can restore it"] if edited else []
    )
    fix = f"when its workload is ready without it: {_delete(intent.namespace, intent.pod)}"
    if edited:
        fix = f"to give it back to its ReplicaSet: {restore_commands(move)}; or {fix}"
    return Finding("warning", f"pod {intent.pod_name}", f"it is moved without a gap: {'; '.join(reasons)}", fix)


def _delete(namespace: str, pod: str) -> str:
    return f"kubectl delete pod --namespace {namespace} {pod}"


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
    fix = f"when its workload is ready without it: {_delete(pod.namespace, pod.name)}"
    return Finding("warning", f"pod {pod.namespace}/{pod.name}", message, fix)


def _named(pods: list[ObjectMeta]) -> str:
    return f"{count(len(pods), 'pod')} without owner that have the annotation {DETACHED_HASH}"
