"""What proposed requests would change: for each workload, for the cluster, and beside other recommendations."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.lab.capacity.fewer_nodes import NodesNeeded
from equipoise.lab.model.resource_requests import (
    RequestsVariant,
    ResourceRequests,
    VariantName,
    requests_of_workload,
)
from equipoise.lab.model.trace import Trace
from equipoise.lab.resource_requests.horizontal_scaling import ScalingChange, scaling_change
from equipoise.lab.resource_requests.measured_days import LearnedAndJudged
from equipoise.lab.resource_requests.proposals import RequestsProposal
from equipoise.lab.resource_requests.requests_fit import RequestsFit, requests_fit
from equipoise.lab.resource_requests.vertical_recommender import recommended_requests


class WorkloadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What changes for a workload."""

    proposal: RequestsProposal
    scaling: ScalingChange | None
    """None if a HorizontalPodAutoscaler cannot scale the workload by a percentage of its CPU request."""


class RequestsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about requests."""

    in_sample: bool
    """Whether the proposals are judged by the day that they come from; otherwise by a later day."""

    learned_days: int
    scaling_target: int
    """The target of the HorizontalPodAutoscalers, in percent of the CPU request."""

    workloads: tuple[WorkloadAnswer, ...]
    fits: Mapping[VariantName, RequestsFit]
    """How the requests fit the usage of the judged day."""

    nodes_needed: tuple[NodesNeeded, ...]
    """The nodes that are needed with each of the requests, and the replays of the present cluster with them."""


def requests_variants(days: LearnedAndJudged, proposed: Sequence[RequestsProposal]) -> tuple[RequestsVariant, ...]:
    """The present, the proposed and the recommended requests."""
    return (
        RequestsVariant(),
        RequestsVariant(name="proposed", requests=tuple(each.proposed for each in proposed)),
        RequestsVariant(name="recommended", requests=recommended_requests(days.learned)),
    )


def requests_answer(
    days: LearnedAndJudged,
    variants: Sequence[RequestsVariant],
    proposed: Sequence[RequestsProposal],
    nodes_needed: Sequence[NodesNeeded],
    *,
    scaling_target: int,
) -> RequestsAnswer:
    """The whole answer."""
    day = days.last_day
    return RequestsAnswer(
        in_sample=days.in_sample,
        learned_days=days.learned_days,
        scaling_target=scaling_target,
        workloads=tuple(
            WorkloadAnswer(
                proposal=each,
                scaling=scaling_change(day, number, each.present, each.proposed, target=scaling_target),
            )
            for number, each in enumerate(proposed)
        ),
        fits={variant.name: requests_fit(day, _requests(day, variant)) for variant in variants},
        nodes_needed=tuple(nodes_needed),
    )


def _requests(trace: Trace, variant: RequestsVariant) -> Sequence[ResourceRequests]:
    return variant.requests or [requests_of_workload(workload) for workload in trace.workloads]
