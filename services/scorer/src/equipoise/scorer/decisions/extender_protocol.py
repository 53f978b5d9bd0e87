"""kube-scheduler's extender protocol: requests are parsed leniently, responses are written strictly.

Source: k8s.io/kube-scheduler/extender/v1/types.go (v0.36). Its types have no JSON tags, so keys are the Go names; as in
Go, keys are accepted in any case.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects import Pod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.scorer.decisions.filtering import FilteredNodes
from equipoise.scorer.state.arrays import Rows
from equipoise.scorer.state.demand import pod_demand


class InvalidRequest(ValueError):
    """The body is not a valid request. The text quotes nothing of the body: it contains env values of pods."""


class ExtenderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of ExtenderArgs that are used."""

    pod: PodDemand
    names: list[str]
    """Each node once, in the order of the request."""

    objects: list[msgspec.Raw] | None = None
    """The node objects, if the caller does not cache nodes (nodeCacheCapable: false)."""


class HostPriority(msgspec.Struct, rename="pascal", gc=False):
    host: str
    score: int


class FilterResult(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """ExtenderFilterResult. Exactly one of `nodes` and `node_names` is not null: the one that the request used."""

    nodes: dict[str, Any] | None
    node_names: list[str] | None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _Metadata


class _NodeList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[msgspec.Raw]


_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_POD = msgspec.json.Decoder(Pod)
_NODES = msgspec.json.Decoder(_NodeList | None)
_NODE = msgspec.json.Decoder(_Node)
_NAMES = msgspec.json.Decoder(list[str] | None)


def parse_request(body: bytes) -> ExtenderRequest:
    """Raises InvalidRequest. If the body has both Nodes and NodeNames, NodeNames count."""
    try:
        return _parse(body)
    except InvalidRequest:
        raise
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None
    except UnicodeError:
        raise InvalidRequest("the body is not UTF-8") from None
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"the body is not an ExtenderArgs: {error}") from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    except ValueError as error:
        raise InvalidRequest(f"the Pod is invalid: {error}") from None


def _parse(body: bytes) -> ExtenderRequest:
    arguments = {key.lower(): value for key, value in _ARGUMENTS.decode(body).items()}
    if "pod" not in arguments:
        raise InvalidRequest("Pod is missing")
    pod = pod_demand(_POD.decode(arguments["pod"]))
    names = _NAMES.decode(arguments["nodenames"]) if "nodenames" in arguments else None
    objects: list[msgspec.Raw] | None = None
    if names is None:
        nodes = _NODES.decode(arguments["nodes"]) if "nodes" in arguments else None
        if nodes is None:
            raise InvalidRequest("Nodes and NodeNames are both missing: one of them is needed")
        objects = nodes.items
        names = [_NODE.decode(node).metadata.name for node in objects]
    # A lone surrogate can be decoded but not encoded. Joined, all names are checked at once.
    "".join((pod.namespace, pod.name, *names)).encode()
    return ExtenderRequest(pod=pod, names=list(dict.fromkeys(names)), objects=objects)


def write_priorities(names: Sequence[str], scores: Rows) -> bytes:
    """HostPriorityList: one integer per host."""
    return msgspec.json.encode(list(map(HostPriority, names, scores.tolist())))


def write_filter_result(request: ExtenderRequest, filtered: FilteredNodes) -> bytes:
    """ExtenderFilterResult, with names or objects as in the request.

    Refusals are "unresolvable": otherwise kube-scheduler would try to preempt pods on a node that is only too hot.
    """
    nodes: dict[str, Any] | None = None
    if request.objects is not None:
        kept = frozenset(filtered.nodes)
        nodes = {
            "metadata": {},
            "items": [node for node in request.objects if _NODE.decode(node).metadata.name in kept],
        }
    return msgspec.json.encode(
        FilterResult(
            nodes=nodes,
            node_names=filtered.nodes if request.objects is None else None,
            failed_and_unresolvable_nodes=filtered.refused,
        )
    )


def write_error(text: str) -> bytes:
    """The body of every status except 200."""
    return msgspec.json.encode({"Error": text})
