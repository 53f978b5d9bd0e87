"""The pods for which a plan found no target since its last move: larger ones have none either."""

from collections.abc import Sequence

from equipoise.contracts.numeric import Array
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.decisions.planning.node_arrays import amount_of


class AmountsWithoutTarget:
    """The smallest amounts without a target, and why; separately for production pods, which have other limits."""

    def __init__(self, further: Sequence[str] = ()) -> None:
        """`further`: the further resources that limit targets."""
        self._further = further
        self._smallest: dict[bool, list[tuple[Array, str]]] = {False: [], True: []}

    def reason(self, pod: MovablePod) -> str:
        """Why the pod has no target; empty if that is not known."""
        amount = amount_of(pod, self._further)
        return next((why for smallest, why in self._smallest[pod.production] if (smallest <= amount).all()), "")

    def add(self, pod: MovablePod, why: str) -> None:
        """Records that no target can hold this pod."""
        amount = amount_of(pod, self._further)
        others = [entry for entry in self._smallest[pod.production] if not (amount <= entry[0]).all()]
        self._smallest[pod.production] = [*others, (amount, why)]

    def clear(self) -> None:
        """Forget everything: a move has changed the nodes."""
        self._smallest = {False: [], True: []}
