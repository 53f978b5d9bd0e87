"""kube-scheduler's extender protocol: requests are parsed leniently, responses are written strictly.

Source: k8s.io/kube-scheduler/extender/v1/types.go (v0.36). Its types have no JSON tags, so keys are the Go names; as in
Go, keys are accepted in any case.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.numeric import Rows, Texts, np
from equipoise.contracts.unreadable.lenient_decoding import read_object
from equipoise.scorer.decisions.demand import pod_demand
from equipoise.scorer.decisions.filtering import FilteredNodes

MAX_NODES = 15_000
"""Maximum number of nodes in a request, which is three times as many as Kubernetes supports."""

MAX_CONTAINERS = 1_000
"""Maximum number of containers of a pod, which is more than fit on a node."""

MAX_PARTS = 50_000
"""Maximum number of values in a Pod, counted by the characters `{`, `[` and `,`, even within strings."""


class InvalidRequest(ValueError):
    """The body is not a valid request. The text does not quote the body, which contains env values of pods."""


class ExtenderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of ExtenderArgs that are used."""

    pod: PodDemand
    names: list[str]
    """The names of the nodes in the order of the request, without duplicates."""

    objects: list[msgspec.Raw] | None = None
    """The node objects, if the caller does not cache nodes (nodeCacheCapable: false)."""

    rows: Rows | None = None
    """The row of each name in the node table; None if the request was parsed without it."""

    plain: bool = False
    """No name contains a character that JSON escapes."""


RowsOf = Callable[[Sequence[str]], Rows]
"""The row of each node in the node table; −1 for an unknown node."""


class HostPriority(msgspec.Struct, frozen=True, rename="pascal"):
    host: str
    score: int


@cache
def _after_host() -> Texts:
    """The text after a host in HostPriorityList, up to the next host, by score."""
    return np.array([f'","Score":{score}}},{{"Host":"' for score in range(101)], np.object_)


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


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """ExtenderArgs with the keys of kube-scheduler. Any number of other keys is skipped."""

    pod: msgspec.Raw = msgspec.Raw()
    nodes: msgspec.Raw = msgspec.Raw()
    node_names: msgspec.Raw = msgspec.Raw()


_MAX_KEYS = 50_000
"""Maximum number of keys in a request whose arguments are not in the case of kube-scheduler."""

_MAX_NODE_VALUES = 300_000
"""Maximum number of JSON objects in Nodes. 3,000 nodes with 100 objects in each are accepted."""

_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_ARGUMENTS_IN_ANY_CASE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_POD = msgspec.json.Decoder(Pod)
_NODES: msgspec.json.Decoder[_NodeList | None] = msgspec.json.Decoder(_NodeList | None)
_NODE = msgspec.json.Decoder(_Node)
_NAMES = msgspec.json.Decoder(list[str] | None)


def parse_request(body: bytes, rows_of: RowsOf | None = None) -> ExtenderRequest:
    """Parse ExtenderArgs. If the body has both Nodes and NodeNames, NodeNames count. Raises InvalidRequest.

    `rows_of`: the lookup of rows in the node table. It is the fastest way to see that no name is repeated.

    Parsing blocks the event loop, and its time depends on the number of values much more than on the length. So values
    are counted before they are decoded, and their number is limited.
    """
    try:
        return _parse(body, rows_of)
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


def _parse(body: bytes, rows_of: RowsOf | None) -> ExtenderRequest:
    arguments = _parse_arguments(body)
    if not bytes(arguments.pod):
        raise InvalidRequest("Pod is missing")
    pod = _parse_pod(bytes(arguments.pod))
    text = bytes(arguments.node_names)
    names = _NAMES.decode(text) if text else None
    objects: list[msgspec.Raw] | None = None
    plain = names is not None and b"\\" not in text
    if names is None:
        objects = _parse_nodes(bytes(arguments.nodes))
        names = [_NODE.decode(node).metadata.name for node in objects]
    _limit(len(names), MAX_NODES, "nodes")
    # A lone surrogate can be decoded but not encoded. It is escaped. All names are joined to check them at once.
    "".join((pod.namespace, pod.name, *(() if plain else names))).encode()
    rows = None if rows_of is None else rows_of(names)
    if _repeats(names, rows):
        names = list(dict.fromkeys(names))
        rows = None if rows_of is None else rows_of(names)
    return ExtenderRequest(pod=pod, names=names, objects=objects, rows=rows, plain=plain)


def _repeats(names: Sequence[str], rows: Rows | None) -> bool:
    """Whether a name is repeated."""
    if rows is None or not len(rows):
        return len(set(names)) < len(names)
    ordered = np.sort(rows)  # a fifth of the time of a set of names
    return bool((ordered[1:] == ordered[:-1]).any()) and len(set(names)) < len(names)


def _parse_arguments(body: bytes) -> _Arguments:
    arguments = _ARGUMENTS.decode(body)
    if bytes(arguments.pod) and (bytes(arguments.nodes) or bytes(arguments.node_names)):
        return arguments
    _limit(body.count(b'":'), _MAX_KEYS, "keys")
    arguments_by_key = {key.lower(): value for key, value in _ARGUMENTS_IN_ANY_CASE.decode(body).items()}
    # In lower case, a key of ExtenderArgs is the name of the field without underscores.
    keys = {name: name.replace("_", "") for name in _Arguments.__struct_fields__}
    return _Arguments(**{name: arguments_by_key[key] for name, key in keys.items() if key in arguments_by_key})


def _parse_pod(text: bytes) -> PodDemand:
    _limit(sum(map(text.count, (b"{", b"[", b","))), MAX_PARTS, "values of the Pod")
    try:
        pod = _POD.decode(text)
    except msgspec.ValidationError as error:
        if "datetime" not in str(error):
            raise
        pod = read_object(text, Pod)  # ignores invalid times, on which no score depends
    _limit(len(pod.spec.containers or ()) + len(pod.spec.init_containers), MAX_CONTAINERS, "containers")
    return pod_demand(pod)


def _parse_nodes(text: bytes) -> list[msgspec.Raw]:
    _limit(text.count(b"{"), _MAX_NODE_VALUES, "values of Nodes")
    nodes = _NODES.decode(text) if text else None
    if nodes is None:
        raise InvalidRequest("Nodes and NodeNames are both missing: one of them is needed")
    _limit(len(nodes.items), MAX_NODES, "nodes")
    return nodes.items


def _limit(number: int, limit: int, what: str) -> None:
    if number > limit:
        raise InvalidRequest(f"too many {what}: {number:,}, at most {limit:,} are accepted")


def write_priorities(names: Sequence[str], scores: Rows, *, plain: bool = False) -> bytes:
    """The HostPriorityList with one integer per host. `plain`: no name contains a character that JSON escapes."""
    if not names or not (plain or _is_plain("".join(names))):
        return msgspec.json.encode(list(map(HostPriority, names, scores.tolist())))
    parts = [""] * (2 * len(names))
    parts[::2] = names
    parts[1::2] = _after_host()[scores].tolist()  # much faster than one lookup for each
    parts[-1] = f'","Score":{scores[-1]}}}]'
    return ('[{"Host":"' + "".join(parts)).encode()


def _is_plain(text: str) -> bool:
    return len(msgspec.json.encode(text)) == len(text.encode()) + 2


def write_filter_result(request: ExtenderRequest, filtered: FilteredNodes) -> bytes:
    """The ExtenderFilterResult, with names or objects as in the request.

    Refusals are "unresolvable", because kube-scheduler would otherwise try to preempt pods on a node that is too hot.
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
    """The body of a response with any status except 200."""
    return msgspec.json.encode({"Error": text})
