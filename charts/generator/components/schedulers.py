"""Schedulers of their own: a second kube-scheduler, and kube-scheduler in Python."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from charts.generator.changes import NAMESPACE, Change, filled, item_named, only_if, value_of
from charts.generator.components.pods import account_values, pod_changes, pod_values
from charts.generator.manifests import Document, Manifests
from charts.generator.schemas import BOOLEAN, COUNT, DIGEST, LABELS, NAMED, TEXT, TEXTS, Group, Value, list_of
from charts.generator.template import More, Node, Text, Yaml


def second_scheduler_values(base: Manifests) -> Group:
    second = base.at("Deployment", "equipoise-scheduler", "spec.template.spec.containers.0")
    repository, _, _ = str(second["image"]).rpartition(":")
    return Group(
        {
            "enabled": Value(
                False,
                BOOLEAN,
                "Run a second kube-scheduler with the extender; pods select it by `schedulerName: equipoise`.",
            ),
            "image": Group(
                {
                    "registry": Value("registry.k8s.io", TEXT, "Registry."),
                    "repository": Value(repository, TEXT, "Repository."),
                    "tag": Value("", TEXT, "Tag; empty: the version of the cluster."),
                    "digest": Value("", DIGEST, "Digest; replaces the tag."),
                },
                "Image of kube-scheduler.",
            ),
            **pod_values(second["resources"]),
        },
        "A scheduler of its own, for clusters whose kube-scheduler you cannot configure.",
    )


def second_scheduler_changes() -> Iterator[Change]:
    kind, name, values = "Deployment", "equipoise-scheduler", "$.Values.secondScheduler"
    only_with_tls = partial(only_if, "$.Values.extender.tls.existingSecret", "extender-client")

    def volumes(old: list[Document]) -> Node:
        item_named(old, "extender-client")["secret"]["secretName"] = value_of("$.Values.extender.tls.clientSecret")
        return only_with_tls(old)

    pod = "spec/template/spec"
    yield Change(kind, name, f"{pod}/containers/0/image", Text('{{ include "equipoise.schedulerImage" $ }}'))
    yield Change(kind, name, f"{pod}/containers/0/volumeMounts", only_with_tls)
    yield Change(kind, name, f"{pod}/volumes", volumes)
    yield Change(kind, name, "spec/revisionHistoryLimit", value_of("$.Values.revisionHistoryLimit"))
    checksum = '{{ include "equipoise.schedulerConfiguration" $ | sha256sum }}'
    yield Change(kind, name, "spec/template/metadata/annotations", {"checksum/config": Text(checksum)})
    yield Change(kind, name, "spec/template/metadata/labels/more", More("$.Values.commonLabels"))
    yield Change(
        "ConfigMap", name, "data", {"scheduler.yaml": Yaml('include "equipoise.schedulerConfiguration" $ | toYaml')}
    )
    yield from pod_changes(kind, name, values)


def scheduler_values(base: Manifests) -> Group:
    def at(path: str) -> Any:
        return base.at("Deployment", "equipoise-python-scheduler", path)

    return Group(
        {
            "enabled": Value(
                False,
                BOOLEAN,
                "Run `equipoise scheduler` (experimental); pods select it by `schedulerName: equipoise-scheduler`.",
            ),
            "replicas": Value(at("spec.replicas"), COUNT, "Number of pods, of which one schedules."),
            "serviceAccount": account_values("python-scheduler"),
            "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
            "podLabels": Value({}, LABELS, "Labels of its pods."),
            "extraArgs": Value([], list_of(TEXT), "More arguments, such as `--plugin=/plugins/mine.py:Mine`."),
            "extraVolumes": Value([], NAMED, "More volumes, for the files of plugins and configurations."),
            "extraVolumeMounts": Value([], NAMED, "More volume mounts."),
            **pod_values(at("spec.template.spec.containers.0.resources")),
        },
        "kube-scheduler in Python, with plugins of your own.",
    )


def scheduler_changes() -> Iterator[Change]:
    kind, name, values = "Deployment", "equipoise-python-scheduler", "$.Values.scheduler"
    pod = "spec/template/spec"
    labels = More(f"merge (dict) {values}.podLabels $.Values.commonLabels")
    yield Change(kind, name, "spec/replicas", value_of(f"{values}.replicas"))
    yield Change(kind, name, "spec/revisionHistoryLimit", value_of("$.Values.revisionHistoryLimit"))
    yield Change(kind, name, "spec/template/metadata/annotations", filled(f"{values}.podAnnotations"))
    yield Change(kind, name, "spec/template/metadata/labels/more", labels)

    def command(old: list[str]) -> Node:
        own = Text('{{ print "--namespace=" $.Release.Namespace | toJson }}')
        return [own if NAMESPACE in each else each for each in old]

    yield Change(kind, name, f"{pod}/containers/0/image", Text('{{ include "equipoise.image" $ }}'))
    yield Change(kind, name, f"{pod}/containers/0/command", command)
    yield Change(kind, name, f"{pod}/containers/0/args", filled(f"{values}.extraArgs"))
    yield Change(kind, name, f"{pod}/containers/0/volumeMounts/-", More(f"{values}.extraVolumeMounts"))
    yield Change(kind, name, f"{pod}/volumes/-", More(f"{values}.extraVolumes"))
    yield from pod_changes(kind, name, values)
    yield Change("ServiceAccount", name, "metadata/annotations", filled(f"{values}.serviceAccount.annotations"))
