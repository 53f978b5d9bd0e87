"""Operating systems and architectures of nodes. An image is built for some of them, and few pods declare which ones.

A replacement on another platform would not start ("exec format error"), and kube-scheduler does not prevent it. So pods
are moved only to platforms on which a pod of the workload is or has been ready, and placement hints name only such
nodes.
"""

from collections.abc import Collection, Mapping

from equipoise.contracts.kubernetes.objects.node import NodeSelector

OS, ARCHITECTURE, WINDOWS_BUILD = "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/windows-build"
"""Labels that every kubelet sets on its node; the last one only on Windows, where images need the same build."""

_BETA = {OS: "beta.kubernetes.io/os", ARCHITECTURE: "beta.kubernetes.io/arch"}
"""The names of these labels before Kubernetes 1.14, by which older manifests of pods still select nodes."""

_LABELS = (OS, ARCHITECTURE, WINDOWS_BUILD)

OTHER_PLATFORM = "node(s) had an operating system or architecture on which no pod of the workload has been ready"

Platform = tuple[str, str, str]
"""The operating system, architecture and Windows build of a node. A value is empty if the label is missing."""


def platform_of(labels: Mapping[str, str]) -> Platform:
    """The platform of a node with these labels."""
    os, architecture = (labels.get(key, "") or labels.get(_BETA[key], "") for key in (OS, ARCHITECTURE))
    return os, architecture, labels.get(WINDOWS_BUILD, "") if os == "windows" else ""


def runs_on(platform: Platform, proven: Collection[Platform], required: NodeSelector | None) -> bool:
    """Whether pods can be expected to start on a platform.

    `proven`: the platforms on which pods of the workload are or have been ready. `required`: the node selector of the
    pods (`required_nodes`). A label that it limits to certain values is not compared.
    """
    compared = [index for index, label in enumerate(_LABELS) if not _limits(required, label)]
    if not compared:
        return True
    return any(all(platform[index] == other[index] for index in compared) for other in proven)


def _limits(required: NodeSelector | None, label: str) -> bool:
    """Whether every alternative limits the label to certain values."""
    if required is None or not required.node_selector_terms:
        return False
    names = (label, _BETA.get(label))
    return all(
        any(rule.key in names and rule.operator == "In" for rule in term.match_expressions)
        for term in required.node_selector_terms
    )
