"""The invariants under every fault: pure checks of a history that return violations, as text.

The numbers are those of docs/reliability.md. A check that finds nothing in an empty history proves nothing:
`MinimumTraffic` is required.
"""

from collections.abc import Callable, Mapping

import msgspec

from faults.history import Guarantees, History
from faults.invariants import bus, changes, evictions, measurements, moves, processes, reclaimed, scheduling

Check = Callable[[History, Guarantees], list[str]]


class MinimumTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """With less traffic a run is inconclusive, even without a violation."""

    intents: int
    evictions: int
    scored: int = 0
    """Requests for which the scorer returned scores."""

    def missing(self, history: History) -> str:
        """ "" when enough happened."""
        intents, evictions = len(history.new_intents), len(history.new_evictions)
        scored = sum(exchange.status == 200 for exchange in history.exchanges)
        if intents >= self.intents and evictions >= self.evictions and scored >= self.scored:
            return ""
        return (
            f"{intents} of {self.intents} intents, {evictions} of {self.evictions} evictions and {scored} of "
            f"{self.scored} requests scored"
        )


INVARIANTS: Mapping[str, Check] = {
    "I1": evictions.limits_hold,
    "I2": evictions.replicas_remain,
    "I3": evictions.protected_pods_remain,
    "I4": evictions.uids_match,
    "I5": evictions.one_outcome_each,
    "I6": evictions.samples_are_fresh,
    "I7": evictions.one_epoch_at_a_time,
    "I8": measurements.nothing_without_coverage,
    "I9": scheduling.responses_are_valid,
    "I10": scheduling.pods_are_scheduled,
    "I11": evictions.no_ping_pong,
    "I12": scheduling.no_herd,
    "I13": bus.acknowledged_events_remain,
    "I14": processes.resources_are_bounded,
    "I15": processes.converges,
    "I16": measurements.usage_is_monotonic,
    "I17": evictions.dry_runs_only,
    "I18": evictions.pause_holds,
    "I19": processes.logs_hold_no_secrets,
    "I20": changes.changes_are_respected,
    "I21": reclaimed.bound_pods_fit,
    "I22": reclaimed.nodes_are_no_smaller,
    "I23": reclaimed.only_amounts_are_written,
    "I24": moves.endpoints_remain,
    "I25": moves.nothing_is_left,
    "I26": moves.one_true_outcome,
    "I27": moves.only_approved_pods,
    "I28": moves.few_at_a_time,
    "I29": moves.rollouts_continue,
}


def violations(history: History, guarantees: Guarantees) -> dict[str, list[str]]:
    """Violations by invariant."""
    return {name: check(history, guarantees) for name, check in INVARIANTS.items()}
