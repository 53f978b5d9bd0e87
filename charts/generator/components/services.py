"""The services of the loop."""

from collections.abc import Iterator
from typing import Any

from charts.generator.changes import Change, filled, value_of
from charts.generator.components.pods import (
    account_values,
    deployment_changes,
    replicated_pod_values,
    secrets_of_the_bus,
)
from charts.generator.manifests import Manifests
from charts.generator.schemas import (
    BOOLEAN,
    COUNT,
    COUNT_OR_SHARE,
    LABELS,
    MOUNTS,
    NAMED,
    TEXT,
    TEXTS,
    VARIABLES,
    Group,
    Value,
    list_of,
)
from charts.generator.template import More


def service_values(base: Manifests, name: str) -> Group:
    def at(path: str) -> Any:
        return base.at("Deployment", f"equipoise-{name}", path)

    budget = base.at("PodDisruptionBudget", f"equipoise-{name}", "spec.maxUnavailable")
    enabled = {
        "annotator": Value(True, BOOLEAN, "Write loads to annotations of nodes and workloads."),
        "reclaimer": Value(
            False,
            BOOLEAN,
            "Publish what nodes can offer to batch pods, and with `config.reclaimer.mode: enforce` write it to their"
            " status.",
        ),
    }
    values: dict[str, Value | Group] = {
        **({"enabled": enabled[name]} if name in enabled else {}),
        "replicas": Value(at("spec.replicas"), COUNT, "Number of pods."),
        **replicated_pod_values(at("spec.template.spec")),
        "podDisruptionBudget": Group(
            {
                "enabled": Value(True, BOOLEAN, "Create a PodDisruptionBudget."),
                "maxUnavailable": Value(budget, COUNT_OR_SHARE, "Pods that may be disrupted at a time."),
            },
            "Voluntary disruptions.",
        ),
        "serviceAccount": account_values(name),
        "terminationGracePeriodSeconds": Value(
            at("spec.template.spec.terminationGracePeriodSeconds"), COUNT, "Time for its shutdown."
        ),
        "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
        "podLabels": Value({}, LABELS, "Labels of its pods."),
        "extraArgs": Value([], list_of(TEXT), "More arguments."),
        "extraEnv": Value([], VARIABLES, "More environment variables."),
        "extraVolumes": Value([], NAMED, "More volumes."),
        "extraVolumeMounts": Value([], MOUNTS, "More volume mounts."),
    }
    return Group(values, f"The {name}.")


def service_changes(service: str) -> Iterator[Change]:
    name, values = f"equipoise-{service}", f"$.Values.{service}"
    kind = "Deployment"
    yield from deployment_changes(name, values, component=service)
    yield from secrets_of_the_bus(kind, name)
    pod = "spec/template/spec"
    yield Change(kind, name, f"{pod}/containers/0/args", filled(f"{values}.extraArgs"))
    yield Change(kind, name, f"{pod}/containers/0/env/-", More(f"{values}.extraEnv"))
    yield Change(kind, name, f"{pod}/containers/0/volumeMounts/-", More(f"{values}.extraVolumeMounts"))
    yield Change(kind, name, f"{pod}/volumes/-", More(f"{values}.extraVolumes"))
    yield Change(
        kind, name, f"{pod}/terminationGracePeriodSeconds", value_of(f"{values}.terminationGracePeriodSeconds")
    )
    yield Change(
        "PodDisruptionBudget", name, "spec/maxUnavailable", value_of(f"{values}.podDisruptionBudget.maxUnavailable")
    )
    yield Change("ServiceAccount", name, "metadata/annotations", filled(f"{values}.serviceAccount.annotations"))
