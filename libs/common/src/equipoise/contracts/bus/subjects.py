"""The subjects of the bus. A subject consists of tokens, one for each name, with dots in between."""

from typing import Literal

from equipoise.contracts.kubernetes.workload import Workload

PREFIX = "equipoise"

ServiceName = Literal["collector", "annotator", "scorer", "descheduler", "binder", "reclaimer"]
SERVICES: tuple[ServiceName, ...] = ("collector", "annotator", "scorer", "descheduler", "binder")
"""The services of every installation."""

OPTIONAL_SERVICES: tuple[ServiceName, ...] = ("reclaimer",)
"""Services that run only if they are enabled (`reclaimer.enabled`)."""

ALL_SERVICES: tuple[ServiceName, ...] = (*SERVICES, *OPTIONAL_SERVICES)

SCORE_EXPLAIN = f"{PREFIX}.score.explain"
PLAN_PREVIEW = f"{PREFIX}.plan.preview"
PLAN_CONSOLIDATION = f"{PREFIX}.plan.consolidation"
NODES_EMPTYING = f"{PREFIX}.placement.emptying"


def token(name: str) -> str:
    """A Kubernetes name as one token of a subject. Reversible: Kubernetes names contain no `_`."""
    return name.replace(".", "_")


def subject(*names: str) -> str:
    """The subject of these names, each one token."""
    return ".".join((PREFIX, *map(token, names)))


def node_utilization(node: str) -> str:
    return subject("utilization", "node", node)


def workload_utilization(workload: Workload) -> str:
    return subject("utilization", "workload", workload.key, workload.namespace, workload.name)


def utilization_cycle(shard: str) -> str:
    return subject("utilization", "cycle", shard)


def node_placement(node: str) -> str:
    return subject("placement", "node", node)


def placement_hint(namespace: str) -> str:
    return subject("placement", "hint", namespace)


def reclaimed_node(node: str) -> str:
    return subject("reclaim", "node", node)


def eviction_intent(namespace: str, pod: str) -> str:
    return subject("eviction", "intent", namespace, pod)


def eviction_outcome(namespace: str, pod: str) -> str:
    return subject("eviction", "outcome", namespace, pod)


def node_annotation(node: str) -> str:
    return subject("annotation", "node", node)


def workload_annotation(workload: Workload) -> str:
    return subject("annotation", "workload", workload.key, workload.namespace, workload.name)


def decision(service: ServiceName, *names: str) -> str:
    return subject("decision", service, *names)


def placement_advice(namespace: str, pod: str, uid: str) -> str:
    return subject("advice", "placement", namespace, pod, uid)


def cluster_review(hour: int, since: int) -> str:
    """`hour`: full hours since 1970; `since`: the Unix second at which the review begins."""
    return subject("advice", "cluster", str(hour), str(since))


def health(service: str, instance: str) -> str:
    return subject("health", service, instance)


def configuration(service: str, instance: str) -> str:
    return subject("configuration", service, instance)


def micro_name(service: str) -> str:
    """The name of a service among NATS micro services."""
    return f"{PREFIX}-{service}"


def object_of(subject: str) -> str:
    """The object of the API server that a subject names, as text. Empty if it names none."""
    match [token.replace("_", ".") for token in subject.split(".")[1:]]:
        case ["utilization" | "placement" | "reclaim" | "annotation", "node", node]:
            return f"node {node}"
        case ["utilization" | "annotation", "workload", kind, namespace, name]:
            return f"{kind.partition('.')[0]} {namespace}/{name}"
        case ["eviction", _, namespace, pod] | ["advice", "placement", namespace, pod, _]:
            return f"pod {namespace}/{pod}"
    return ""


def matches(pattern: str, subject: str) -> bool:
    """Whether a NATS pattern (`*` is one token, a final `>` one or more) matches this subject."""
    expected, tokens = pattern.split("."), subject.split(".")
    if expected[-1] == ">":
        if len(tokens) < len(expected):
            return False
        expected.pop()
        tokens = tokens[: len(expected)]
    return len(expected) == len(tokens) and all(
        want in ("*", have) for want, have in zip(expected, tokens, strict=True)
    )
