"""CHECKS by name, in the order in which they are told."""

from collections.abc import Awaitable, Callable, Mapping

from equipoise.cli.doctor.checks.clocks import clocks
from equipoise.cli.doctor.checks.extender import extender
from equipoise.cli.doctor.checks.kubernetes import kubernetes
from equipoise.cli.doctor.checks.nodes import nodes
from equipoise.cli.doctor.checks.prometheus import prometheus
from equipoise.cli.doctor.checks.rights import rights
from equipoise.cli.doctor.checks.streams import streams
from equipoise.cli.doctor.environment import Surroundings
from equipoise.cli.doctor.finding import Finding

Check = Callable[[Surroundings], Awaitable[list[Finding]]]

CHECKS: Mapping[str, Check] = {
    "kubernetes": kubernetes,
    "rights": rights,
    "bus": streams,
    "prometheus": prometheus,
    "nodes": nodes,
    "clocks": clocks,
    "extender": extender,
}
