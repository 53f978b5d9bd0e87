"""The names of the cgroups of pods, for both cgroup drivers of the kubelet: cgroupfs and systemd."""

import re
from typing import Literal

QosGroup = Literal["guaranteed", "burstable", "besteffort"]

KUBEPODS = (
    "kubepods.slice",
    "kubepods",
    "kubelet.slice/kubelet-kubepods.slice",  # nodes of kind
    "kubelet/kubepods",
    "kubelet/kubepods.slice",
    "kubelet.slice/kubepods.slice",
)
"""The possible paths of the group of all pods, below the root of a hierarchy."""

_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:kubelet-)?(?:kubepods-)?(?:(?:burstable|besteffort)-)?pod({_UID})(?:\.slice)?")
_QOS = re.compile(r"(?:(?:kubelet-)?kubepods-)?(burstable|besteffort)(?:\.slice)?")
_CONTAINER = re.compile(r"(?:(?!crio-conmon-)[a-z-]+-)?[0-9a-f]{64}(?:\.scope)?|container")


def pod_uid(name: str) -> str | None:
    """The UID of the pod whose group has this name; None if it is not the group of a pod.

    For a static pod it is the hash of the manifest. Names of systemd have underscores instead of the dashes of a UID,
    because systemd separates the parts of a name with dashes.
    """
    match = _POD.fullmatch(name)
    return match[1].replace("_", "-") if match else None


def qos_group(name: str) -> QosGroup | None:
    """The QoS class whose group has this name; None if it is not the group of a QoS class."""
    match = _QOS.fullmatch(name)
    if match is None:
        return None
    return "burstable" if match[1] == "burstable" else "besteffort"


def is_container(name: str) -> bool:
    """Whether the group with this name is that of a container, or the group `container` that crun adds below it.

    The group of CRI-O's monitor (conmon) is not.
    """
    return _CONTAINER.fullmatch(name) is not None
