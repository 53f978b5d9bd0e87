"""The answers to questions about capacity that a comparison can include."""

import msgspec

from equipoise.lab.capacity.batch_work import BatchCapacity
from equipoise.lab.capacity.consolidated_days import ConsolidatedDays
from equipoise.lab.capacity.fewer_nodes import NodesNeeded
from equipoise.lab.hindsight.hindsight_answer import HindsightAnswer
from equipoise.lab.resource_requests.requests_answer import RequestsAnswer


class CapacityAnswers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answers by question. An answer is None or empty if the question was not asked."""

    batch: BatchCapacity | None = None
    nodes_needed: tuple[NodesNeeded, ...] = ()
    requests: RequestsAnswer | None = None
    consolidation: tuple[ConsolidatedDays, ...] = ()
    hindsight: HindsightAnswer | None = None
