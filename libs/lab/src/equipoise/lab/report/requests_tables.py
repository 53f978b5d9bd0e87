"""The answer about requests as rows of text."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from equipoise.lab.model.resource_requests import VariantName
from equipoise.lab.report.rows import Rows
from equipoise.lab.resource_requests.proposals import MARGIN, PERCENTILE
from equipoise.lab.resource_requests.requests_answer import RequestsAnswer, WorkloadAnswer
from equipoise.lab.resource_requests.requests_manifests import without_manifest

VARIANTS: dict[VariantName, str] = {
    "present": "present",
    "proposed": "proposed",
    "recommended": "VerticalPodAutoscaler",
}

_NAMED = 3


class _Team(msgspec.Struct, kw_only=True):
    """Sums over the workloads of a namespace, in cores, GiB and pods; each before and after."""

    changed: int = 0
    pods: int = 0
    cpu: tuple[float, float] = (0.0, 0.0)
    memory: tuple[float, float] = (0.0, 0.0)
    replicas: tuple[float, float] = (0.0, 0.0)

    def add(self, answer: WorkloadAnswer) -> None:
        of, scaling = answer.proposal, answer.scaling
        self.changed += of.changed
        self.pods += of.pods
        self.cpu = _sum(self.cpu, of.present.cpu_milli, of.proposed.cpu_milli, of.pods / 1_000.0)
        self.memory = _sum(self.memory, of.present.memory_mib, of.proposed.memory_mib, of.pods / 1_024.0)
        if scaling is not None:
            self.replicas = _sum(self.replicas, scaling.before.mean, scaling.after.mean, 1.0)


def _sum(so_far: tuple[float, float], before: float, after: float, factor: float) -> tuple[float, float]:
    return so_far[0] + before * factor, so_far[1] + after * factor


def requests_rows(answer: RequestsAnswer) -> list[Rows]:
    """The tables by team, of the requests side by side, and of the present nodes with each of them."""
    return [_teams(answer), _fits(answer), _present_nodes(answer)]


def requests_notes(answer: RequestsAnswer) -> list[str]:
    """What a reader has to know: rules, what stays as it is, and what else must change."""
    days = f"the {answer.learned_days} days before it" if answer.learned_days > 1 else "the day before it"
    notes = [
        "Proposed requests: CPU of the second highest hour of each day "
        f"(the {PERCENTILE:.0f}th percentile), the highest of all days; the highest memory; both with a margin of "
        f"{MARGIN:.0%}. They are judged by the last day"
        + (", from which they come: in sample." if answer.in_sample else f", and come from {days}: out of sample."),
        "Slack: (requested − used) / requested. Autopilot reached 23 %, against 46 % by hand (EuroSys 2020).",
    ]
    notes += _days_note(answer)
    kept: defaultdict[str, list[str]] = defaultdict(list)
    for each in answer.workloads:
        if each.proposal.kept:
            kept[each.proposal.kept].append(f"{each.proposal.namespace}/{each.proposal.name}")
    notes += [f"Not lowered ({reason}): {_names(names)}." for reason, names in kept.items()]
    notes += [
        f"No VerticalPodAutoscaler and no patch ({reason}): "
        f"{_names([f'{each.namespace}/{each.name}' for each in missing])}."
        for reason, missing in without_manifest(each.proposal for each in answer.workloads).items()
    ]
    return [*notes, *_scaling_note(answer)]


def _days_note(answer: RequestsAnswer) -> list[str]:
    if answer.learned_days >= 7:
        return []
    return [f"Fewer than 7 days ({answer.learned_days}) are known: what happens once a week may not be among them."]


def _scaling_note(answer: RequestsAnswer) -> list[str]:
    changed = [
        (abs(each.scaling.target - answer.scaling_target), each.proposal, each.scaling)
        for each in answer.workloads
        if each.scaling is not None and each.scaling.target != answer.scaling_target
    ]
    if not changed:
        return []
    changed.sort(key=lambda each: -each[0])
    examples = [
        f"{proposal.namespace}/{proposal.name} {answer.scaling_target} % → {scaling.target} %"
        for _, proposal, scaling in changed
    ]
    return [
        "A HorizontalPodAutoscaler that aims at a percentage of the CPU request follows the request: multiply its "
        f"target by present / proposed, or it changes the number of pods. Examples: {_names(examples)}."
    ]


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _teams(answer: RequestsAnswer) -> Rows:
    teams: defaultdict[str, _Team] = defaultdict(_Team)
    total = _Team()
    for each in answer.workloads:
        teams[each.proposal.namespace].add(each)
        total.add(each)
    ordered = sorted(teams.items(), key=lambda team: (team[1].cpu[1] - team[1].cpu[0], team[0]))
    shown = [*ordered, *([("all", total)] if len(ordered) > 1 else [])]
    return Rows(
        title="Proposed requests, by team (namespace)",
        heads=(
            "team", "workloads · changed", "pods", "CPU cores · present", "CPU cores · proposed",
            "memory GiB · present", "memory GiB · proposed", "autoscaled · pods now", "autoscaled · same target",
        ),
        names=1,
        rows=tuple(
            (
                name,
                f"{team.changed:,}",
                f"{team.pods:,}",
                *(f"{value:,.1f}" for value in (*team.cpu, *team.memory)),
                *(f"{value:,.1f}" for value in team.replicas),
            )
            for name, team in shown
        ),
        ours=frozenset({len(ordered)} if len(ordered) > 1 else ()),
    )  # fmt: skip


def _fits(answer: RequestsAnswer) -> Rows:
    return Rows(
        title="The requests beside the usage of the last day",
        heads=(
            "requests", "CPU · cores", "memory · GiB", "CPU · slack", "memory · slack", "pod-hours · CPU above",
            "pod-hours · memory above", "pod-hours · above limit",
        ),
        names=1,
        rows=tuple(
            (
                VARIANTS[name],
                f"{fit.cpu_milli / 1_000:,.0f}",
                f"{fit.memory_mib / 1_024:,.0f}",
                *("unknown" if slack is None else f"{slack:.0%}" for slack in (fit.cpu_slack, fit.memory_slack)),
                *(
                    f"{hours:,.0f}"
                    for hours in (
                        fit.cpu_pod_hours_above, fit.memory_pod_hours_above, fit.memory_pod_hours_above_limit,
                    )
                ),
            )
            for name, fit in answer.fits.items()
        ),
        ours=frozenset({1}),
    )  # fmt: skip


def _present_nodes(answer: RequestsAnswer) -> Rows:
    rows = [
        (
            case.policy + (" (hints)" if case.placement == "hints" else ""),
            "yes" if case.descheduler else "no",
            VARIANTS[case.requests],
            f"{size.hours_above_80:,.0f}",
            f"{size.memory_hours_above_100:,.0f}",
            f"{size.unplaced:,.0f}",
        )
        for case in answer.nodes_needed
        for size in case.tried
        if size.nodes == case.nodes
    ]
    return Rows(
        title="The last day on the present nodes, after every workload was rolled out",
        heads=("policy", "de- · scheduler", "requests", "hours · >80 % CPU", "hours · >100 % memory", "unplaced"),
        names=3,
        rows=tuple(rows),
        ours=frozenset(number for number, row in enumerate(rows) if row[2] == VARIANTS["proposed"]),
    )
