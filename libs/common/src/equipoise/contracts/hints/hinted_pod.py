"""The placement hint with which a pod was created, from the pod itself."""

from collections import Counter
from collections.abc import Mapping

from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.pod import Pod


def hint_weights(pod: Pod) -> Mapping[str, int] | None:
    """The weights with which a pod prefers nodes, by hostname; negative if it avoids a node. None if it has no hint. A
    weight is the sum of the weights of all terms with this hostname.

    Preferences that the user wrote are included, because the pod does not show who wrote them.
    """
    if HINTED not in pod.metadata.annotations:
        return None
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    weights = Counter[str]()
    for term in affinity.preferred if affinity else ():
        for rule in term.preference.match_expressions:
            if rule.key == HOSTNAME and rule.operator in ("In", "NotIn"):
                weight = term.weight if rule.operator == "In" else -term.weight
                weights.update(dict.fromkeys(rule.values, weight))
    return weights
