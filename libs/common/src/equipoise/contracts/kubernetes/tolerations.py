"""Whether a pod tolerates a taint.

`Gt` and `Lt` exist since Kubernetes 1.35 (feature gate TaintTolerationComparisonOperators, alpha). Without the gate the
API server refuses pods that use them.
"""

import re
from collections.abc import Sequence

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.contracts.messages.placement import Taint

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
"""Anything else, as 007 or +1, matches no comparison."""


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """True when one of the tolerations matches the taint. Source: `ToleratesTaint` of k8s.io/api/core/v1, 1.36."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Gt" | "Lt" if _INTEGER.fullmatch(toleration.value) and _INTEGER.fullmatch(taint.value):
            above = int(taint.value) - int(toleration.value)
            return above > 0 if toleration.operator == "Gt" else above < 0
    return False
