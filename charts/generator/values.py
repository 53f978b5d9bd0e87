"""The values of the chart: the one source of values.yaml, values.schema.json and the table in the README.

Defaults that k8s/base has too are taken from there.
"""

from collections.abc import Mapping
from typing import Any, get_args

from charts.generator.components.agent import agent_values
from charts.generator.components.certificates import certificates_values
from charts.generator.components.extender import extender_values
from charts.generator.components.hints import hints_values
from charts.generator.components.jobs import prepare_values, setup_values
from charts.generator.components.live_page import live_page_values
from charts.generator.components.monitoring import dashboards_values, prometheus_rule_values, service_monitor_values
from charts.generator.components.nats import nats_values
from charts.generator.components.policies import flow_control_values, network_policy_values, priority_class_values
from charts.generator.components.schedulers import scheduler_values, second_scheduler_values
from charts.generator.components.services import service_values
from charts.generator.manifests import Manifests
from charts.generator.schemas import (
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
    DIGEST,
    LABELS,
    NAME,
    NAMED,
    OPTIONAL_NAME,
    TEXT,
    Group,
    Schema,
    Value,
    list_of,
)

from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.contracts.configuration.moves import LEVELS, DeletionCosts
from equipoise.contracts.configuration.surge import SurgeMode


def chart_values(base: Manifests, config: Mapping[str, Any], config_schema: Schema) -> Group:
    """`config`: the default of the value of that name."""
    values: dict[str, Value | Group] = {
        "mode": Value(
            "observe",
            {"enum": ["observe", "advise", "evict"]},
            "What Equipoise may do. `observe`: it measures, scores, annotates and proposes moves, and has no"
            " permission to evict. `advise`: it has that permission, and the API server judges its evictions as dry"
            " runs, but no pod is evicted. `evict`: it evicts.",
        ),
        "namespaces": Value(
            [],
            list_of(NAME),
            "Namespaces with the permission to evict, which must exist; empty: all. Unless `config.namespaces` is set,"
            " moves are proposed in them only.",
        ),
        "config": Value(
            dict(config),
            config_schema,
            "The configuration, as in k8s/base/equipoise.yaml; `equipoise config defaults` prints every setting."
            " Not here, because other values set them: `binder.evict` (`mode`), `annotator.crane` (`crane.enabled`),"
            " `annotator.deletionCosts` (`deletionCosts`), `surge.mode` (`surge`), `moves.level` (`moves`),"
            " `placement` (`hints.enabled` and `extender.enabled`), `annotator.hints.admission` and the addresses and"
            " files of `annotator.hints.webhook` (`hints`), `reclaimer.enabled`"
            " (`reclaimer.enabled`), `agent.evict` (`agent.evictions`), `agent.cgroupRoot`,"
            " `nats` (`nats`), `kubernetes`, the addresses on which services listen, and `scorer.extender.tls`"
            " (`extender`).",
        ),
        "image": _image(base),
        "crane": Group(
            {"enabled": Value(False, BOOLEAN, "Write crane-scheduler's annotations on nodes, too, and permit it.")},
            "Annotations for crane-scheduler.",
        ),
        "hints": hints_values(base),
        "moves": Value(
            "",
            {"enum": ["", False, *LEVELS]},  # a YAML file with `off` gives false
            "How far Equipoise is trusted to move pods, within the permissions of `mode`; each level includes those"
            " before it. `off`: not at all. `scaleDowns`: it chooses which pods a scale-down deletes (`deletionCosts`)."
            " `withoutGap`: it moves pods from hot nodes so that they serve until their replacement is ready (`surge`),"
            " and no others. `hotNodes`: it also evicts pods from hot nodes. `levelDay`: it also moves pods from nodes"
            " that are not hot. Empty: as `mode`, `deletionCosts`, `surge` and `config.descheduler.strategies` state."
            " With a level, these may be left out, except `mode`; if they are set, they permit less, never more.",
        ),
        "deletionCosts": Value(
            "",
            {"enum": ["", *get_args(DeletionCosts)]},
            "Which pods of a workload a scale-down should delete first, when the days before predict it: those on the"
            " nodes that will be hottest, or on those with the fewest pods, so that nodes become empty. Lets the"
            " annotator read pods, and write `controller.kubernetes.io/pod-deletion-cost` to them. Empty:"
            " `hottestNodes` from `moves: scaleDowns` on, else `none`.",
        ),
        "surge": Value(
            "",
            {"enum": ["", *get_args(SurgeMode)]},
            "Which pods of Deployments are moved without a gap, so that they serve until their replacement is ready:"
            " single replicas, also pods whose PodDisruptionBudget allows no eviction, or all. Lets the binder list"
            " pods, Services, quotas and budgets, and remove and restore one label of approved pods. Empty: `always`"
            " from `moves: withoutGap` on, else `none`.",
        ),
        "extender": extender_values(base),
        "secondScheduler": second_scheduler_values(base),
        "scheduler": scheduler_values(base),
        "livePage": live_page_values(base),
        "nats": nats_values(base),
        "certManager": certificates_values(),
        **{service: service_values(base, service) for service in ALL_SERVICES},
        "agent": agent_values(base),
        "prepare": prepare_values(base),
        "setup": setup_values(base),
        "rbac": Group(
            {
                "create": Value(
                    True,
                    BOOLEAN,
                    "Create roles and bindings. If false, somebody else did, by those of k8s/base; the Secrets are then"
                    " yours.",
                )
            },
            "Permissions.",
        ),
        "priorityClass": priority_class_values(base),
        "flowControl": flow_control_values(base),
        "networkPolicy": network_policy_values(base),
        "serviceMonitor": service_monitor_values(),
        "prometheusRule": prometheus_rule_values(),
        "dashboards": dashboards_values(),
        "test": Group(
            {
                "enabled": Value(True, BOOLEAN, "`helm test` runs `equipoise doctor` in the cluster."),
                "timeoutSeconds": Value(300, COUNT, "Seconds after which the Job fails."),
            },
            "The test of an installation.",
        ),
        "podSecurityContext": Value(
            base.at("Deployment", "equipoise-collector", "spec.template.spec.securityContext"),
            ANY_OBJECT,
            "Security context of all pods; those of NATS and of the agent have their own.",
        ),
        "containerSecurityContext": Value(
            base.at("Deployment", "equipoise-collector", "spec.template.spec.containers.0.securityContext"),
            ANY_OBJECT,
            "Security context of all containers.",
        ),
        "revisionHistoryLimit": Value(10, COUNT, "Old ReplicaSets that are kept per Deployment."),
        "commonLabels": Value({}, LABELS, "Labels of all objects and pods."),
        "nameOverride": Value(
            "",
            OPTIONAL_NAME,
            "The label `app.kubernetes.io/name`; empty: equipoise. Selectors use it: not to be changed later.",
        ),
        "fullnameOverride": Value(
            "",
            OPTIONAL_NAME,
            "First part of the names of Deployments, DaemonSets, Services, ConfigMaps, Jobs, budgets and network"
            " policies; empty: equipoise. Accounts, roles, policies, Leases and the ledger keep their names, which the"
            " services check.",
        ),
        "extraObjects": Value(
            [],
            list_of({"anyOf": [ANY_OBJECT, TEXT]}),
            "More objects, each a mapping or a text; template expressions in them are evaluated.",
        ),
        "global": Group(
            {
                "imageRegistry": Value("", TEXT, "Registry of all images; overrides theirs."),
                "imagePullSecrets": Value([], NAMED, "Pull secrets of all pods, in addition to `image.pullSecrets`."),
            },
            "Values that other charts may share; others than these two are accepted and have no effect.",
            rule={"additionalProperties": True},
        ),
    }
    return Group(values, "Values of the chart equipoise.", rule=_CONFLICTS)


_CONFLICTS: Schema = {
    "allOf": [
        {
            "if": {"properties": {"secondScheduler": {"properties": {"enabled": {"const": True}}}}},
            "then": {"properties": {"extender": {"properties": {"enabled": {"const": True}}}}},
        },
        {
            "if": {"properties": {"hints": {"properties": {"enabled": {"const": True}}}}},
            "then": {"properties": {"annotator": {"properties": {"enabled": {"const": True}}}}},
        },
    ]
}
"""The second scheduler requests scores from the extender, and the annotator writes hints."""


def _image(base: Manifests) -> Group:
    image = str(base.at("Deployment", "equipoise-collector", "spec.template.spec.containers.0.image"))
    repository, _, _ = image.rpartition(":")
    return Group(
        {
            "registry": Value("", TEXT, "Registry; empty: that of the container runtime, or `global.imageRegistry`."),
            "repository": Value(repository, {"type": "string", "minLength": 1}, "Repository."),
            "tag": Value("", TEXT, "Tag."),
            "digest": Value("", DIGEST, "Digest; replaces the tag."),
            "pullPolicy": Value("IfNotPresent", {"enum": ["Always", "IfNotPresent", "Never"]}, "Pull policy."),
            "pullSecrets": Value([], NAMED, "Pull secrets, for example `[{name: registry}]`."),
        },
        "Image of the services; its tag defaults to the version of the chart's app.",
    )
