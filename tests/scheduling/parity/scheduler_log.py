"""The log of kube-scheduler with `--vmodule=schedule_one=10`: its attempts, with scores and errors, in their order."""

import json
import re
from collections.abc import Sequence

import msgspec

_STARTED, _FAILED = "Attempting to schedule pod", "Unable to schedule pod; no fit; waiting"
_SCORED, _TOTAL = "Plugin scored node for pod", "Calculated node's final score for pod"
_ERROR = "Error scheduling pod; retrying"

_TEXT = r'"((?:[^"\\]|\\.)*)"'
_LINE = re.compile(
    rf'"(?P<what>{_STARTED}|{_SCORED}|{_TOTAL}|{_FAILED}|{_ERROR})" (?:err={_TEXT} (?:logger="[^"]*" )?)?'
    r'pod="(?P<pod>[^"]+)"(?: plugin="(?P<plugin>[^"]+)")?(?: node="(?P<node>[^"]+)" score=(?P<score>-?\d+))?'
    rf"(?: err={_TEXT})?"
)


class Attempt(msgspec.Struct, kw_only=True):
    """One scheduling cycle."""

    pod: str
    """namespace/name."""

    scores: dict[str, dict[str, int]] = {}
    """Scores by plugin and node, normalized and weighted."""

    scored: set[str] = set()
    """Names of nodes; empty if there was no choice."""

    error: str | None = None
    """Why there is no node."""


def read_attempts(text: str) -> Sequence[Attempt]:
    found: list[Attempt] = []
    latest: dict[str, Attempt] = {}
    for match in _LINE.finditer(text):
        pod = match["pod"]
        if match["what"] == _STARTED:
            found.append(Attempt(pod=pod))
            latest[pod] = found[-1]
        elif (attempt := latest.get(pod)) is None:
            continue
        elif match["what"] == _SCORED:
            attempt.scores.setdefault(match["plugin"], {})[match["node"]] = int(match["score"])
        elif match["what"] == _TOTAL:
            attempt.scored.add(match["node"])
        else:
            attempt.error = _unquoted(match[2] or match[7] or "")
    return found


def read_node_order(text: str) -> Sequence[str]:
    """Names of nodes in the order in which they were added (`--vmodule=node_tree=2`)."""
    return re.findall(r'"Added node to NodeTree" node="([^"]+)"', text)


def _unquoted(text: str) -> str:
    """A Go string literal. Other escapes than those of JSON do not occur in these messages."""
    return str(json.loads(f'"{text}"'))
