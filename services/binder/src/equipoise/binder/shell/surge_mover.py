"""Continues the open moves of the ledger, also those that another binder has begun."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import structlog

from equipoise.binder.decisions.eviction_response import blocked_text, read_response
from equipoise.binder.decisions.result import Finish, recorded
from equipoise.binder.decisions.surge.detached_annotations import (
    AnnotationChanges,
    changes_at_detaching,
    changes_at_restoring,
)
from equipoise.binder.decisions.surge.landing import depends_on_pods, landing_problem
from equipoise.binder.decisions.surge.next_step import next_step
from equipoise.binder.decisions.surge.observation import ObservedMove, placed_replacement, remaining_workload
from equipoise.binder.decisions.surge.plan import SurgePlan
from equipoise.binder.decisions.surge.step import End, Evict, Place, Record, Restore, Step, Wait
from equipoise.binder.shell.ledger_writer import MAX_READ_AGE, LedgerWriter
from equipoise.binder.shell.surge_reads import read_move
from equipoise.binder.state.backoff import BudgetBackoff
from equipoise.binder.state.cluster_state import ClusterState
from equipoise.binder.state.ledger import LedgerClosed
from equipoise.binder.state.surge_move import RESERVED, SurgeMove, with_refused_request
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Shared
from equipoise.runtime.kubernetes.client import PODS, Kube, KubeError
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

log = structlog.get_logger()

_PERIOD = 1.0
"""Seconds between two turns. A replacement on a wrong node is given up only before it is ready."""

_MAX_RECORDS = 5
"""The number of stages that one turn may write at most. More would mean that the stages repeat."""


@dataclass
class SurgeMover:
    kube: Kube
    clock: Clock
    health: Health
    ledger: LedgerWriter
    cluster: ClusterState
    shared: Shared
    report: Callable[[EvictionIntent, Finish], Awaitable[None]]
    """Publishes the outcome of an intent, and writes its Events. Raises BusError."""

    random: Callable[[], float]
    """Returns 0..1."""

    dry_run: bool = False
    """Whether evictions are dry runs: no move begins. Those that an earlier binder has begun are ended."""

    def __post_init__(self) -> None:
        self._budgets = BudgetBackoff(self.random)
        """Apart from that of evictions: a budget that refuses them may allow this one, because a pod was added."""

    async def run(self) -> None:
        """Carries on all open moves until canceled. A pause stops new moves only, and so does any configuration."""
        while True:
            await self.clock.sleep(_PERIOD)
            await self.turn()

    async def turn(self) -> None:
        """One step of each open move. An error delays the move that it concerns, and is named in /readyz."""
        if not self.ledger.surge_pods:
            self.health.set_problem("surge", None)  # another binder may have ended the last move
            return
        problems = []
        try:
            ledger = await self.ledger.read()
        except KubeError:
            return  # the watch of the ledger reports it
        for move in () if isinstance(ledger, LedgerClosed) else ledger.surge_moves:
            try:
                if problem := await self.advance(move.intent.id):
                    problems.append(f"{move.intent.pod_name}: {problem}")
            except (KubeError, BusError) as error:
                problems.append(f"{move.intent.pod_name}: {error}")
        self.health.set_problem("surge", f"moves without a gap wait: {'; '.join(problems)}" if problems else None)

    async def detach(self, intent: EvictionIntent, plan: SurgePlan, *, within: float) -> None:
        """Removes the label of a pod whose move is reserved. If that fails, `advance` ends the move later: at once if
        the API server has refused it."""
        try:
            await self._relabel(intent, plan.version, None, changes_at_detaching(plan), within)
        except KubeError as error:
            log.warning("pod not detached", pod=intent.pod_name, error=str(error))
            if 400 <= error.status < 500:
                with suppress(KubeError):  # it then ends when the request cannot arrive any more
                    await self._record_refusal(intent)

    async def _record_refusal(self, intent: EvictionIntent) -> None:
        ledger = await self.ledger.read()
        move = None if isinstance(ledger, LedgerClosed) else ledger.surge_move(intent.id)
        if move is not None and move.stage == RESERVED:
            await self.ledger.change_surge_move(move, with_refused_request(move))

    async def advance(self, intent_id: str) -> str:
        """The next step of a move. Returns why it cannot be made: a refusal of the API server, or what only a person
        can change. Empty if it was made, or if the move waits as intended.

        Raises KubeError and BusError. Another turn then finds the move as it is.
        """
        read_at = self.clock.monotonic()
        ledger = await self.ledger.read()
        move = None if isinstance(ledger, LedgerClosed) else ledger.surge_move(intent_id)
        if move is None:
            return ""
        observed = await read_move(self.kube, move)
        observed = msgspec.structs.replace(
            observed, misplaced=await self._misplaced(move, observed), switched_off=self._switched_off
        )
        for _ in range(_MAX_RECORDS):
            step = next_step(move, observed, self.ledger.earliest)
            if not isinstance(step, Record | Place):
                break
            changed = step.applied(move, self.ledger.latest)
            if not await self.ledger.change_surge_move(move, changed):
                return ""  # another binder was faster
            log.info(
                "move without a gap",
                pod=move.intent.pod_name,
                stage=changed.stage,
                why=changed.why,
                node=changed.replacement_node,
                misplaced=changed.misplaced,
            )
            move = changed
        else:
            return ""
        within = read_at + MAX_READ_AGE - self.clock.monotonic()
        return await self._carry_out(move, step, observed, within) if within > 0 else ""

    async def _carry_out(self, move: SurgeMove, step: Step, observed: ObservedMove, within: float) -> str:
        if isinstance(step, Restore) and (pod := observed.pod) is not None:
            changes, version = changes_at_restoring(move, pod), pod.metadata.resource_version
            await self._relabel(move.intent, version, move.template_hash, changes, within)
        elif isinstance(step, Evict):
            return await self._evict(move, observed, within)
        elif isinstance(step, End):
            await self._end(move, step)
        elif isinstance(step, Wait) and step.stuck:
            return step.why
        return ""

    async def _relabel(
        self, intent: EvictionIntent, version: str, value: str | None, annotations: AnnotationChanges, within: float
    ) -> None:
        await self.kube.relabel(
            PODS,
            intent.pod,
            {TEMPLATE_HASH: value},
            annotations,
            namespace=intent.namespace,
            uid=intent.pod_uid,
            version=version,
            within=within,
        )

    async def _evict(self, move: SurgeMove, observed: ObservedMove, within: float) -> str:
        """Requests the eviction, unless a budget has just refused it. The next turn finds whether the pod has left."""
        intent, orphaned = move.intent, remaining_workload(observed) is None
        after = ". Its Deployment was deleted: delete the budget, or the pod" if orphaned else ""
        budget, wait = self._budgets.remaining(move.workload, self.clock.monotonic())
        if wait > 0:
            return f"{blocked_text(budget, wait)}{after}"
        result = await self.kube.evict(intent.namespace, intent.pod, uid=intent.pod_uid, dry_run=False, within=within)
        response = read_response(
            result.status,
            result.message,
            disruption_budget=result.disruption_budget,
            budget=result.budget,
            retry_after=result.retry_after,
        )
        if response.meaning == "accepted":
            self._budgets.accepted(move.workload)
        if response.meaning == "accepted" or response.finish is None:
            return response.why
        if response.meaning != "blocked":
            return response.finish.detail
        self._budgets.refused(move.workload, intent.namespace, response.budget, self.clock.monotonic())
        return f"{response.finish.detail}{after}"

    async def _end(self, move: SurgeMove, end: End) -> None:
        """Writes the outcome, publishes it, and forgets the move: a crash in between repeats the same outcome.

        If another binder has continued with the move, the next turn decides: the pod may have left by its eviction.
        """
        ledger = await self.ledger.read()
        if isinstance(ledger, LedgerClosed) or ledger.surge_move(move.intent.id) != move:
            return
        finish = Finish(
            outcome=end.outcome,
            detail=end.detail,
            reservation="kept" if end.begun else "returned",
            dry_run=False,
            without_gap=True,
        )
        entry = await self.ledger.settle(move.intent, finish)
        if entry is not None and entry.outcome is not None:
            finish = msgspec.structs.replace(recorded(entry), without_gap=True)
        await self.report(move.intent, finish)
        await self.ledger.end_surge_move(move)

    @property
    def _switched_off(self) -> str:
        if self.dry_run:
            return "evictions are dry runs (binder.evict)"
        switched_off = self.shared.rules.surge == "none"
        return "moves without a gap are switched off (surge.mode or moves.level)" if switched_off else ""

    async def _misplaced(self, move: SurgeMove, observed: ObservedMove) -> str:
        """Why a replacement that was bound since the last turn should not run on its node."""
        replacement = placed_replacement(move, observed)
        if replacement is None:
            return ""
        depends = depends_on_pods(replacement)
        return landing_problem(
            move,
            replacement,
            await self.kube.list(PODS, move.intent.namespace) if depends else (),
            self.cluster,
            load=self.shared.load,
            thresholds=self.shared.thresholds,
            now=self.clock.now(),
        )
