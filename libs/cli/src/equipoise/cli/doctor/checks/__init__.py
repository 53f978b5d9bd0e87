"""The checks of `equipoise doctor`, one file each. A check only reads and changes nothing."""

from collections.abc import Awaitable, Callable, Mapping

from equipoise.cli.doctor.checks.clocks import clocks
from equipoise.cli.doctor.checks.colocation import colocation
from equipoise.cli.doctor.checks.configuration import configuration
from equipoise.cli.doctor.checks.evictions.approvals import approvals
from equipoise.cli.doctor.checks.evictions.detached_pods import detached_pods
from equipoise.cli.doctor.checks.evictions.emptied_nodes import emptied_nodes
from equipoise.cli.doctor.checks.evictions.next_level import next_level
from equipoise.cli.doctor.checks.extender import extender
from equipoise.cli.doctor.checks.hints import hints
from equipoise.cli.doctor.checks.kubernetes import kubernetes
from equipoise.cli.doctor.checks.measurements.nodes import nodes
from equipoise.cli.doctor.checks.measurements.pressure import pressure
from equipoise.cli.doctor.checks.measurements.prometheus import prometheus
from equipoise.cli.doctor.checks.permissions import permissions
from equipoise.cli.doctor.checks.services import services
from equipoise.cli.doctor.checks.streams import streams
from equipoise.cli.doctor.checks.versions import versions
from equipoise.cli.doctor.environment import Environment, Finding

Check = Callable[[Environment], Awaitable[list[Finding]]]

CHECKS: Mapping[str, Check] = {
    "kubernetes": kubernetes,
    "versions": versions,
    "permissions": permissions,
    "approvals": approvals,
    "detached": detached_pods,
    "emptying": emptied_nodes,
    "bus": streams,
    "services": services,
    "configuration": configuration,
    "trust": next_level,
    "prometheus": prometheus,
    "nodes": nodes,
    "pressure": pressure,
    "clocks": clocks,
    "extender": extender,
    "hints": hints,
    "colocation": colocation,
}
"""The checks in the order of the output."""
