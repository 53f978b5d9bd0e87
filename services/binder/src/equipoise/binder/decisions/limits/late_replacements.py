"""An interlock: when replacements do not come, nothing more is evicted, whatever the reason is."""

from equipoise.binder.decisions.limits.count import Count, amount
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


class LateReplacements(Section, frozen=True, kw_only=True):
    """Evicted pods of the cluster whose workloads miss their replica for too long."""

    most: Count = 3
    """With so many late ones nothing moves."""

    after: Duration = Duration(300)
    """A replacement is late from then on; it is given up after `limits.migrationTimeout`."""

    @property
    def memory(self) -> float:
        return 0.0

    def refusal(self, move: Move, view: View) -> str:
        # A dry run takes no replica away, so none is late.
        late = sum(not entry.dry_run and view.now - entry.latest > self.after for entry in view.in_migration())
        return refused(view, late, amount(self.most, 0), f"replacements that are not ready after {self.after}")
