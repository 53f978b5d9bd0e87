"""Commands of kubectl that change what a workload requests, or create its pods again. Pure."""

import math
import shlex
from collections.abc import Sequence

from equipoise.contracts.kubernetes.objects.pod import Container, Pod
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import known

CHANGEABLE = {("Deployment", "apps"), ("StatefulSet", "apps"), ("DaemonSet", "apps")}
"""Kinds with a template that `kubectl set resources` changes, and whose pods it then replaces."""

RESTARTABLE = CHANGEABLE - {("DaemonSet", "apps")}
"""Kinds whose pods may be on other nodes after `kubectl rollout restart`."""

MEBIBYTE = 2.0**20


def set_request(
    workload: Workload, pod: Pod, resource: str, wanted: float, kubectl: Sequence[str], *, lower: bool = False
) -> str | None:
    """The command that sets the request of a pod to `wanted` (cores or bytes), rounded to two digits, within its limit.

    `pod`: a running pod of the workload. Of several containers, the request of the largest one is changed. `kubectl`:
    the program, with the options of the cluster. None if kubectl cannot change this workload, or if the command would
    not raise the request (with `lower`: not lower it).
    """
    containers = pod.spec.containers or []
    if (workload.kind, workload.group) not in CHANGEABLE or not containers or pod.spec.resources is not None:
        return None
    try:
        requests = [_amount(container.resources.requests, resource) or 0.0 for container in containers]
        sidecars = sum(
            _amount(container.resources.requests, resource) or 0.0
            for container in pod.spec.init_containers
            if container.restart_policy == "Always"
        )
        changed = max(range(len(containers)), key=lambda at: requests[at])
        container_request = wanted - sidecars - sum(requests) + requests[changed]
        amount = _quantity(container_request, containers[changed], resource)
        difference = parse_quantity(amount) - requests[changed]
        if container_request <= 0 or (difference >= 0 if lower else difference <= 0):
            return None
    except ValueError:
        return None
    container = ["-c", containers[changed].name] if len(containers) > 1 else []
    return _command([*kubectl, *_namespace_option(workload), "set", "resources", _name(workload), *container,
                     f"--requests={resource}={amount}"])  # fmt: skip


def restart(workload: Workload, kubectl: Sequence[str]) -> str | None:
    """The command that replaces all pods, a few at a time.

    None if kubectl cannot do this, or if the pods would not move.
    """
    if (workload.kind, workload.group) not in RESTARTABLE:
        return None
    return _command([*kubectl, *_namespace_option(workload), "rollout", "restart", _name(workload)])


def _namespace_option(workload: Workload) -> list[str]:
    return ["-n", workload.namespace]


def _name(workload: Workload) -> str:
    return f"{workload.kind.lower()}/{workload.name}"


def _command(words: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, words))


def _amount(quantities: dict[str, str], resource: str) -> float | None:
    return known(parse_quantity(quantities[resource])) if resource in quantities else None


def _quantity(amount: float, container: Container, resource: str) -> str:
    """The quantity of an amount, for example `900m` or `1300Mi`; the limit of the container if that is lower."""
    limit = _amount(container.resources.limits, resource)
    unit, suffix = (1e-3, "m") if resource == "cpu" else (MEBIBYTE, "Mi")
    rounded = _rounded(amount / unit)
    if limit is not None and limit < rounded * unit:
        return container.resources.limits[resource]
    return f"{rounded}{suffix}"


def _rounded(number: float) -> int:
    """The number with two significant digits, at least 1.

    It is rounded up if it exceeds a multiple of the last digit by more than a tenth: 903 becomes 910, 900.4 becomes
    900.
    """
    if number <= 1:
        return 1
    step = int(10.0 ** max(0, math.floor(math.log10(number)) - 1))
    return math.ceil(number / step - 0.1) * step
