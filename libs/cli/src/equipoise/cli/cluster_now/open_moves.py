"""The moves without a gap that are under way: commands learn from the ledger which pods they have detached."""

from collections.abc import Mapping

from msgspec.structs import replace

from equipoise.binder.shell.ledger_store import LedgerStore
from equipoise.binder.state.ledger import LedgerClosed
from equipoise.binder.state.surge_move import SurgeMove
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.kubernetes.client import Kube, KubeError

OpenMoves = Mapping[str, SurgeMove]
"""The moves without a gap that are under way, by the UID of their pod."""


async def open_moves(kube: Kube, namespace: str) -> OpenMoves:
    """The open moves of the ledger in this namespace. Empty if it cannot be read, as in a cluster without
    Equipoise."""
    try:
        stored = await LedgerStore(kube, namespace).read()
    except KubeError:
        return {}
    return {} if isinstance(stored, LedgerClosed) else {move.intent.pod_uid: move for move in stored.ledger.surge_moves}


def before_its_move(pod: Pod, moves: OpenMoves) -> Pod | None:
    """The pod as it was when its ReplicaSet had it. None if it is not detached."""
    move = moves.get(pod.metadata.uid)
    if move is None or pod.metadata.controller is not None:
        return None
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=move.replica_set, controller=True)
    labels = {**pod.metadata.labels, TEMPLATE_HASH: move.template_hash}
    return replace(pod, metadata=replace(pod.metadata, owner_references=[owner], labels=labels))
