"""The commands with which the report ends: what a person can do now. Pure."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from equipoise.cli.cluster_now.causes import UnevenWorkload
from equipoise.cli.cluster_now.nodes import RESOURCE_NAMES
from equipoise.cli.report.now.kubectl import restart, set_request
from equipoise.cli.report.now.oversized import OversizedWorkload
from equipoise.cli.terminal import UNIT, amount
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.values.resources import cpu_and_memory

CLUSTER_OPTIONS = ("--kubeconfig", "--context")
"""Options that kubectl has, too. Its option for the namespace is about the workload."""

NAMESPACE_OPTION = "--namespace"
"""The option of commands that use an installation."""

MIN_SHARE = 0.05
"""The smallest share in what is uneven for which a command is shown that replaces the pods of a workload."""


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and what it shows or does."""

    command: str
    purpose: str
    changes_cluster: bool = False
    """Whether it changes the workloads of the cluster, which this report never does."""


def next_steps(
    causes: Sequence[UnevenWorkload],
    oversized: Sequence[OversizedWorkload],
    placements: Mapping[str, NodePlacement],
    pods: Iterable[Pod],
    options: Sequence[str],
    *,
    unknown: bool,
    installed: bool = False,
) -> list[NextStep]:
    """The commands, those that change the cluster first.

    `options`: the options of this report, as pairs of an option and its quoted value. `installed`: whether Equipoise
    runs in the cluster.
    """
    examples = _examples(
        {*(each.workload for each in causes), *(each.workload for each in oversized)}, placements, pods
    )
    kubectl = ["kubectl", *_cluster_options(options)]
    large = [cause for cause in causes if cause.share >= MIN_SHARE]
    return [
        *_raise_requests(large, examples, kubectl),
        *_restart_workloads(large, kubectl),
        *_lower_requests(oversized, examples, kubectl),
        *_find_out_more(options, unknown=unknown, installed=installed),
    ]


def amount_text(value: float, resource: str) -> str:
    """An amount with its unit, for example `0.90 cores`."""
    return f"{amount(cpu_and_memory({resource: value}), resource)} {UNIT[resource]}"


def _examples(
    workloads: set[Workload], placements: Mapping[str, NodePlacement], pods: Iterable[Pod]
) -> dict[Workload, Pod]:
    """A pod of each workload."""
    uids = {
        pod.uid: pod.workload
        for placement in placements.values()
        for pod in placement.pods
        if pod.workload in workloads and not pod.terminating
    }
    examples: dict[Workload, Pod] = {}
    for pod in pods:
        workload = uids.get(pod.metadata.uid)
        if workload is not None:
            examples.setdefault(workload, pod)
    return examples


def _cluster_options(options: Sequence[str], names: Collection[str] = CLUSTER_OPTIONS) -> list[str]:
    pairs = zip(options[::2], options[1::2], strict=True)
    return [word for name, value in pairs if name in names for word in (name, *shlex.split(value))]


def _raise_requests(
    causes: Sequence[UnevenWorkload], examples: Mapping[Workload, Pod], kubectl: Sequence[str]
) -> Iterator[NextStep]:
    for cause in causes:
        if cause.reason == "placement" or cause.workload not in examples:
            continue
        command = set_request(cause.workload, examples[cause.workload], cause.resource, cause.usage, kubectl)
        name = RESOURCE_NAMES[cause.resource]
        before = "nothing" if cause.request is None else amount_text(cause.request, cause.resource)
        used = amount_text(cause.usage, cause.resource)
        if command is not None:
            purpose = f"raise the {name} request of a pod from {before} to its usage, {used}: its pods are replaced"
            if len(examples[cause.workload].spec.containers or ()) > 1:
                purpose += f"; which container uses it shows `{_top(cause.workload, kubectl)}`"
            yield NextStep(command=command, purpose=purpose, changes_cluster=True)


def _top(workload: Workload, kubectl: Sequence[str]) -> str:
    return shlex.join([*kubectl, "-n", workload.namespace, "top", "pod", "--containers"])


def _restart_workloads(causes: Sequence[UnevenWorkload], kubectl: Sequence[str]) -> Iterator[NextStep]:
    for cause in causes:
        command = restart(cause.workload, kubectl) if cause.reason == "placement" else None
        if command is not None:
            purpose = (
                "create its pods again: with placement hints they prefer nodes with headroom, otherwise kube-scheduler "
                "places them by requests"
            )
            yield NextStep(command=command, purpose=purpose, changes_cluster=True)


def _lower_requests(
    oversized: Sequence[OversizedWorkload], examples: Mapping[Workload, Pod], kubectl: Sequence[str]
) -> Iterator[NextStep]:
    for entry in oversized:
        if entry.workload not in examples:
            continue
        example = examples[entry.workload]
        command = set_request(entry.workload, example, entry.resource, entry.wanted, kubectl, lower=True)
        if command is not None:
            purpose = (
                f"lower the {RESOURCE_NAMES[entry.resource]} request of a pod to its highest usage and a quarter more; "
                f"all pods together then reserve {amount_text(entry.reserved, entry.resource)} less"
            )
            yield NextStep(command=command, purpose=purpose, changes_cluster=True)


def _find_out_more(options: Sequence[str], *, unknown: bool, installed: bool) -> Iterator[NextStep]:
    given = " ".join(("", *options))
    pairs = zip(options[::2], options[1::2], strict=True)
    anywhere = " ".join(("", *(word for pair in pairs if pair[0] != NAMESPACE_OPTION for word in pair)))
    if unknown:
        yield NextStep(command=f"equipoise doctor{given}", purpose="find out why something is not known")
    yield NextStep(command=f"equipoise nodes{given}", purpose="all nodes, with their load and requests")
    yield NextStep(
        command=f"equipoise lab record{anywhere} --out week",
        purpose="record the past week; then `equipoise lab whatif week` compares the scheduler with each policy",
    )
    if installed:
        command = shlex.join(["equipoise", "plan", *_cluster_options(options, (*CLUSTER_OPTIONS, NAMESPACE_OPTION))])
        yield NextStep(command=command, purpose="the pods that the installed Equipoise would move now, and why")
    else:
        yield NextStep(
            command=f"equipoise up{anywhere}", purpose="run Equipoise on this machine; every eviction is a dry run"
        )
