"""The outcomes that binders have published lately, so that an intent that is delivered again gets the same one.

A refusal is recorded nowhere else: in the ledger, every refused intent would rewrite the document that all binders
share. The stream keeps the last outcome of each pod, and the queue holds one intent per pod. So a binder that starts
knows the outcome of every intent that may be delivered to it.
"""

from equipoise.contracts.messages.eviction import EvictionOutcome

_KEPT = 5_000
"""The number of outcomes that are kept. Fewer intents than this are pending at any time."""


_RETENTION = 86_400.0
"""Seconds for which an outcome is kept; an intent lives for minutes."""


class PublishedOutcomes:
    """The latest outcome of each intent, by its id."""

    def __init__(self) -> None:
        self._outcomes: dict[str, EvictionOutcome] = {}

    def add(self, outcome: EvictionOutcome) -> None:
        self._outcomes[outcome.intent_id] = outcome
        while len(self._outcomes) > _KEPT or self._oldest.settled_at < outcome.settled_at - _RETENTION:
            del self._outcomes[self._oldest.intent_id]

    @property
    def _oldest(self) -> EvictionOutcome:
        return next(iter(self._outcomes.values()))

    def get(self, intent_id: str) -> EvictionOutcome | None:
        return self._outcomes.get(intent_id)
