"""kube-scheduler's extender protocol: its question read leniently, its answers written strictly.

Source: k8s.io/kube-scheduler/extender/v1/types.go (v0.36). Its types have no JSON tags, so keys are the Go names; Go
itself reads keys in any case, and so do we.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects import Pod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import Filtering
from equipoise.scorer.state.arrays import Rows
from equipoise.scorer.state.demand import pod_demand


class Malformed(ValueError):
    """The body is no question. The text says why and quotes nothing of it: bodies hold env values."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """ExtenderArgs, reduced to what is needed."""

    pod: PodDemand
    names: list[str]
    """Each node once, in the order asked."""

    objects: list[msgspec.Raw] | None = None
    """The node objects as they came, when the caller does not cache nodes (nodeCacheCapable: false)."""


class HostPriority(msgspec.Struct, rename="pascal", gc=False):
    host: str
    score: int


class FilterResult(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """ExtenderFilterResult. Exactly one of `nodes` and `node_names` is not null, the one that was asked with."""

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


def read_question(body: bytes) -> Question:
    """Raises Malformed. With both Nodes and NodeNames, NodeNames count: they are what the answer is about."""
    try:
        return _read(body)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("the body is nested too deeply") from None
    except UnicodeError:
        raise Malformed("the body is not UTF-8") from None
    except msgspec.ValidationError as error:
        raise Malformed(f"the body is no ExtenderArgs: {error}") from None
    except msgspec.DecodeError as error:
        raise Malformed(f"the body is no JSON: {error}") from None
    except ValueError as error:
        raise Malformed(f"the Pod cannot be read: {error}") from None


def _read(body: bytes) -> Question:
    arguments = {key.lower(): value for key, value in _ARGUMENTS.decode(body).items()}
    if "pod" not in arguments:
        raise Malformed("Pod is missing")
    pod = pod_demand(_POD.decode(arguments["pod"]))
    names = _NAMES.decode(arguments["nodenames"]) if "nodenames" in arguments else None
    objects: list[msgspec.Raw] | None = None
    if names is None:
        nodes = _NODES.decode(arguments["nodes"]) if "nodes" in arguments else None
        if nodes is None:
            raise Malformed("Nodes and NodeNames are both missing: one of them is needed")
        objects = nodes.items
        names = [_NODE.decode(node).metadata.name for node in objects]
    # Halves of surrogate pairs can be read and not written again; together the names are looked at in one go.
    "".join((pod.namespace, pod.name, *names)).encode()
    return Question(pod=pod, names=list(dict.fromkeys(names)), objects=objects)


def write_priorities(names: Sequence[str], scores: Rows) -> bytes:
    """HostPriorityList: one integer per host."""
    return msgspec.json.encode(list(map(HostPriority, names, scores.tolist())))


def write_filtering(question: Question, filtering: Filtering) -> bytes:
    """ExtenderFilterResult, in the form of the question.

    Refusals are "unresolvable": else kube-scheduler would try to preempt pods on a node that is only too hot.
    """
    nodes: dict[str, Any] | None = None
    if question.objects is not None:
        stay = frozenset(filtering.nodes)
        objects = [node for node in question.objects if _NODE.decode(node).metadata.name in stay]
        nodes = {"metadata": {}, "items": objects}
    return msgspec.json.encode(
        FilterResult(
            nodes=nodes,
            node_names=filtering.nodes if question.objects is None else None,
            failed_and_unresolvable_nodes=filtering.refused,
        )
    )


def write_error(text: str) -> bytes:
    """What goes with every status but 200."""
    problem: Mapping[str, str] = {"Error": text}
    return msgspec.json.encode(problem)
