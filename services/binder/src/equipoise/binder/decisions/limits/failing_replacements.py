"""An interlock: when replacements cannot even be created, nothing more is evicted, however long that takes."""

from equipoise.binder.decisions.limits.count import Count, amount
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.settings import Section


class FailingReplacements(Section, frozen=True, kw_only=True):
    """Evicted pods of the cluster whose controllers cannot create a replacement: admission or a quota refuses it."""

    most: Count = 1
    """With so many nothing moves, until they are created or `equipoise resume` says that it is all right."""

    @property
    def memory(self) -> float:
        return 0.0

    def refusal(self, move: Move, view: View) -> str:
        failing = view.failing()
        why = f" ({failing[0].failing})" if failing and failing[0].failing else ""
        return refused(view, len(failing), amount(self.most, 0), f"replacements that cannot be created{why}")
