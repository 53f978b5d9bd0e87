"""The values of the chart: the one source of values.yaml, values.schema.json and the table in the README.

Defaults that k8s/base has too are taken from there.
"""

from collections.abc import Mapping
from typing import Any

from charts.generator.manifests import Manifests
from charts.generator.schemas import (
    AFFINITY,
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
    COUNT_OR_SHARE,
    DIGEST,
    DURATION,
    EGRESS,
    LABELS,
    MOUNTS,
    NAME,
    NAMED,
    OPTIONAL_NAME,
    QUANTITY,
    RESOURCES,
    SPREAD,
    TEXT,
    TEXTS,
    TOLERATIONS,
    VARIABLES,
    Group,
    Schema,
    Value,
    closed,
    list_of,
)

from equipoise.contracts.bus.subjects import ALL_SERVICES


def chart_values(base: Manifests, config: Mapping[str, Any], config_schema: Schema) -> Group:
    """`config`: the default of the value of that name."""
    second = base.at("Deployment", "equipoise-scheduler", "spec.template.spec.containers.0")
    repository, _, _ = str(second["image"]).rpartition(":")
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
            " `annotator.deletionCosts` (`deletionCosts`), `surge.mode` (`surge`),"
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
        "hints": Group(
            {
                "enabled": Value(
                    False,
                    BOOLEAN,
                    "Add preferred node affinity to new pods, towards the nodes with headroom for their workload. Needs"
                    " no configuration of kube-scheduler.",
                ),
                "admission": Value(
                    "auto",
                    {"enum": ["auto", "policy", "webhook"]},
                    "What adds the hints to pods. `policy`: an admission policy in the API server, from Kubernetes 1.36"
                    " on (or 1.34 with the feature gate MutatingAdmissionPolicy). `webhook`: a program of Equipoise."
                    " `auto`: the policy from 1.36 on, if the API server serves it, and the webhook below.",
                ),
                "webhook": _hints_webhook(base),
            },
            "Placement hints, which the API server adds to pods.",
        ),
        "deletionCosts": Value(
            "none",
            {"enum": ["none", "hottestNodes", "emptiestNodes"]},
            "Which pods of a workload a scale-down should delete first, when the days before predict it: those on the"
            " nodes that will be hottest, or on those with the fewest pods, so that nodes become empty. Lets the"
            " annotator read pods, and write `controller.kubernetes.io/pod-deletion-cost` to them.",
        ),
        "surge": Value(
            "none",
            {"enum": ["none", "singleReplicas", "blocked", "always"]},
            "Which pods of Deployments are moved without a gap, so that they serve until their replacement is ready:"
            " single replicas, also pods whose PodDisruptionBudget allows no eviction, or all. Lets the binder list"
            " pods, Services, quotas and budgets, and remove and restore one label of approved pods.",
        ),
        "extender": Group(
            {
                "enabled": Value(
                    True, BOOLEAN, "Serve scores to kube-scheduler. If false, the scorer only explains and reports."
                ),
                "service": Group(
                    {
                        "type": Value(
                            "ClusterIP", {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}, "Type of the Service."
                        ),
                        "clusterIP": Value(
                            "", TEXT, "A fixed address for the configuration of kube-scheduler; empty: any free one."
                        ),
                        "annotations": Value({}, TEXTS, "Annotations of the Service."),
                    },
                    "The Service of the extender.",
                ),
                "tls": Group(
                    {
                        "existingSecret": Value(
                            "equipoise-extender-tls",
                            OPTIONAL_NAME,
                            "Secret with `tls.crt`, `tls.key` and `ca.crt`, by `equipoise certificates --for extender`"
                            " or cert-manager. Empty: plain HTTP, which needs"
                            " `config.scorer.extender.allowUnauthenticated`.",
                        ),
                        "clientSecret": Value(
                            "equipoise-extender-client", NAME, "Secret with the files of kube-scheduler."
                        ),
                    },
                    "Certificates of the extender.",
                ),
            },
            "The scheduler extender.",
        ),
        "secondScheduler": Group(
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
                **_pod(second["resources"]),
            },
            "A scheduler of its own, for clusters whose kube-scheduler you cannot configure.",
        ),
        "scheduler": _scheduler(base),
        "livePage": _live_page(base),
        "nats": _nats(base),
        "certManager": Group(
            {
                "enabled": Value(
                    False,
                    BOOLEAN,
                    "Let cert-manager issue the certificates. If false, the Secrets must exist: `equipoise"
                    " certificates`.",
                ),
                "duration": Value("8760h", DURATION, "Validity of a certificate."),
                "renewBefore": Value("2160h", DURATION, "Time before its end at which it is renewed."),
            },
            "Certificates by cert-manager.",
        ),
        **{service: _service(base, service) for service in ALL_SERVICES},
        "agent": _agent(base),
        "prepare": Group(
            {
                "enabled": Value(
                    True,
                    BOOLEAN,
                    "Create the Secrets that are missing and have their default name: passwords of NATS, certificates"
                    " of NATS and of the extender. What exists is kept. If false, or with names of your own, the"
                    " Secrets are yours. Its rights are deleted when it has completed.",
                ),
                **_pod(base.at("Job", "equipoise-prepare", "spec.template.spec.containers.0.resources")),
            },
            "The Job that creates what the pods wait for, before an install or upgrade (a hook).",
        ),
        "setup": Group(
            {
                "backoffLimit": Value(
                    base.at("Job", "equipoise-setup", "spec.backoffLimit"), COUNT, "Attempts before the Job fails."
                ),
                "ttlSecondsAfterFinished": Value(
                    base.at("Job", "equipoise-setup", "spec.ttlSecondsAfterFinished"),
                    COUNT,
                    "Seconds for which the finished Job remains.",
                ),
                **_pod(base.at("Job", "equipoise-setup", "spec.template.spec.containers.0.resources")),
            },
            "The Job that creates the streams and the ledger, at every install and upgrade.",
        ),
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
        "priorityClass": Group(
            {
                "create": Value(True, BOOLEAN, "Create the PriorityClass."),
                "name": Value(
                    "equipoise", OPTIONAL_NAME, "PriorityClass of the services and of NATS; empty: that of the cluster."
                ),
                "value": Value(
                    base.at("PriorityClass", "equipoise", "value"),
                    {"type": "integer", "maximum": 1000000000},
                    "Its priority.",
                ),
            },
            "Priority of the pods.",
        ),
        "flowControl": Group(
            {
                "enabled": Value(
                    True, BOOLEAN, "A priority level of their own in the API server for the services' requests."
                ),
                "nominalConcurrencyShares": Value(
                    base.at("PriorityLevelConfiguration", "equipoise", "spec.limited.nominalConcurrencyShares"),
                    COUNT,
                    "Share of that level.",
                ),
            },
            "API Priority and Fairness.",
        ),
        "networkPolicy": Group(
            {
                "enabled": Value(True, BOOLEAN, "Deny all ingress to the namespace except what the services need."),
                "schedulerCidrs": Value(
                    [
                        source["ipBlock"]["cidr"]
                        for source in base.at("NetworkPolicy", "equipoise-scorer", "spec.ingress.0.from")
                    ],
                    list_of({"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$"}),
                    "Addresses of kube-scheduler: replace them by those of your control-plane nodes.",
                ),
                "apiServerCidrs": Value(
                    [
                        source["ipBlock"]["cidr"]
                        for source in base.at("NetworkPolicy", "equipoise-hints-webhook", "spec.ingress.0.from")
                    ],
                    list_of({"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$"}),
                    "Addresses from which your API servers call the webhook of hints.",
                ),
                "metricsNamespaceLabels": Value(
                    base.at(
                        "NetworkPolicy", "equipoise-metrics", "spec.ingress.0.from.0.namespaceSelector.matchLabels"
                    ),
                    TEXTS,
                    "Labels of the namespaces whose pods may read metrics and health.",
                ),
                "extraEgress": Value(
                    [], EGRESS, "More rules for the egress of the scorer, the only service with restricted egress."
                ),
            },
            "NetworkPolicies.",
        ),
        "serviceMonitor": Group(
            {
                "enabled": Value(False, BOOLEAN, "Create a ServiceMonitor, and a Service for it."),
                "labels": Value({}, TEXTS, "Labels by which your Prometheus selects it, for example `release`."),
                "interval": Value("30s", DURATION, "Time between two scrapes."),
                "scrapeTimeout": Value("10s", DURATION, "Timeout of a scrape."),
                "relabelings": Value([], list_of(ANY_OBJECT), "More relabelings of targets."),
                "metricRelabelings": Value([], list_of(ANY_OBJECT), "Relabelings of samples."),
            },
            "Metrics of the services, for the Prometheus operator.",
        ),
        "prometheusRule": Group(
            {
                "enabled": Value(False, BOOLEAN, "Create a PrometheusRule for each file in `files/rules`."),
                "labels": Value({}, TEXTS, "Labels by which your Prometheus selects them."),
                "files": Value(
                    ["alerting-rules"],
                    list_of(TEXT),
                    "Names of the files, without `.yaml`; `recording-rules` are for the metrics profile of that name."
                    " Empty: all.",
                ),
                "runbookUrl": Value(
                    "",
                    {"type": "string", "pattern": "^(https?://[^\\s#]+)?$"},
                    "Page of runbooks that alerts link to, for example your own copy. Empty: that of this version.",
                ),
            },
            "Rules for the Prometheus operator.",
        ),
        "dashboards": Group(
            {
                "enabled": Value(False, BOOLEAN, "Create a ConfigMap for each dashboard in `files/dashboards`."),
                "labels": Value({"grafana_dashboard": "1"}, TEXTS, "Labels by which Grafana's sidecar finds them."),
                "annotations": Value(
                    {"grafana_folder": "Equipoise"}, TEXTS, "Annotations, for example the folder in Grafana."
                ),
            },
            "Grafana dashboards.",
        ),
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


def _pod(resources: Mapping[str, Any], *, affinity: str = "Affinity.") -> dict[str, Value | Group]:
    return {
        "resources": Value(dict(resources), RESOURCES, "Requests and limits."),
        "nodeSelector": Value({}, TEXTS, "Node selector."),
        "tolerations": Value([], TOLERATIONS, "Tolerations."),
        "affinity": Value({}, AFFINITY, affinity),
    }


def _replicated_pod(pod: Mapping[str, Any]) -> dict[str, Value | Group]:
    """The values of pods that are spread over nodes and zones."""
    spread = [
        {key: value for key, value in constraint.items() if key != "labelSelector"}
        for constraint in pod["topologySpreadConstraints"]
    ]
    affinity = "Affinity; it replaces the preference of replicas for different zones."
    return {
        **_pod(pod["containers"][0]["resources"], affinity=affinity),
        "topologySpreadConstraints": Value(spread, SPREAD, "Spread of the pods; selectors are added."),
    }


def _hints_webhook(base: Manifests) -> Group:
    def at(path: str) -> Any:
        return base.at("Deployment", "equipoise-hints-webhook", path)

    return Group(
        {
            "replicas": Value(at("spec.replicas"), COUNT, "Number of pods."),
            "tls": Group(
                {
                    "existingSecret": Value(
                        "equipoise-hints-webhook-tls",
                        NAME,
                        "Secret with `tls.crt`, `tls.key` and `ca.crt`, by the Job `equipoise-prepare`, by `equipoise"
                        " certificates --for hints-webhook` or cert-manager.",
                    )
                },
                "TLS of the API server to the webhook.",
            ),
            **_replicated_pod(at("spec.template.spec")),
            "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
            "podLabels": Value({}, LABELS, "Labels of its pods."),
        },
        "The webhook, where it is used.",
    )


def _scheduler(base: Manifests) -> Group:
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
            "serviceAccount": _account("python-scheduler"),
            "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
            "podLabels": Value({}, LABELS, "Labels of its pods."),
            "extraArgs": Value([], list_of(TEXT), "More arguments, such as `--plugin=/plugins/mine.py:Mine`."),
            "extraVolumes": Value([], NAMED, "More volumes, for the files of plugins and configurations."),
            "extraVolumeMounts": Value([], NAMED, "More volume mounts."),
            **_pod(at("spec.template.spec.containers.0.resources")),
        },
        "kube-scheduler in Python, with plugins of your own.",
    )


def _live_page(base: Manifests) -> Group:
    def at(path: str) -> Any:
        return base.at("Deployment", "equipoise-live-page", path)

    return Group(
        {
            "enabled": Value(
                False,
                BOOLEAN,
                "Run `equipoise dashboard` in the cluster. The page has no login: see docs/operate.md.",
            ),
            "replicas": Value(at("spec.replicas"), COUNT, "Number of pods."),
            "allowHosts": Value(
                [],
                list_of({"type": "string", "pattern": "^[A-Za-z0-9.:-]+$"}),
                "Host names, without a port, under which browsers may open the page: that of your proxy with"
                " authentication. `localhost`, as behind `kubectl port-forward`, needs no entry.",
            ),
            "allowFrom": Value(
                base.at("NetworkPolicy", "equipoise-live-page", "spec.ingress.0.from"),
                list_of(
                    closed(dict.fromkeys(("namespaceSelector", "podSelector", "ipBlock"), ANY_OBJECT))
                    | {"minProperties": 1}
                ),
                "Who may connect to the page, as the peers of a NetworkPolicy; empty: nobody, only `kubectl"
                " port-forward` works.",
            ),
            "serviceAccount": _account("live-page"),
            "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
            "podLabels": Value({}, LABELS, "Labels of its pods."),
            **_pod(at("spec.template.spec.containers.0.resources")),
        },
        "The live page of the cluster, for browsers.",
    )


def _agent(base: Manifests) -> Group:
    def at(path: str) -> Any:
        return base.at("DaemonSet", "equipoise-agent", path)

    pod = "spec.template.spec"
    return Group(
        {
            "enabled": Value(
                False,
                BOOLEAN,
                "Run a pod on every Linux node that limits batch pods while they disturb others. It runs as root with"
                " the cgroups of the node, in a namespace `equipoise-agent` that the chart creates; Secrets of"
                " `image.pullSecrets` must exist there, too.",
            ),
            "evictions": Value(
                False,
                BOOLEAN,
                "Permit it to evict batch pods of its node, and let it evict. If false, evictions are only logged.",
            ),
            "serviceAccount": _account("agent"),
            "podSecurityContext": Value(at(f"{pod}.securityContext"), ANY_OBJECT, "Security context of its pods."),
            "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
            "podLabels": Value({}, LABELS, "Labels of its pods."),
            **_pod(at(f"{pod}.containers.0.resources")),
            "nodeSelector": Value(at(f"{pod}.nodeSelector"), TEXTS, "Node selector."),
            "tolerations": Value(at(f"{pod}.tolerations"), TOLERATIONS, "Tolerations."),
        },
        "The agent of each node.",
    )


def _account(name: str) -> Group:
    return Group(
        {
            "create": Value(True, BOOLEAN, f"Create the ServiceAccount `equipoise-{name}`."),
            "annotations": Value({}, TEXTS, "Its annotations."),
        },
        "Its account.",
    )


def _nats(base: Manifests) -> Group:
    image, _, tag = str(base.at("StatefulSet", "nats", "spec.template.spec.containers.0.image")).rpartition(":")
    claim = base.at("StatefulSet", "nats", "spec.volumeClaimTemplates.0.spec.resources.requests.storage")
    return Group(
        {
            "enabled": Value(
                True,
                BOOLEAN,
                "Run a NATS server. If false, `url` names yours, which has the users of files/permissions.conf.",
            ),
            "url": Value(
                "",
                {"type": "string", "pattern": "^((tls|nats|wss|ws)://[^,]+(,(tls|nats|wss|ws)://[^,]+)*)?$"},
                "Address of your NATS servers, separated by commas; only with `enabled: false`.",
            ),
            "replicas": Value(
                1, {"enum": [1, 3, 5]}, "Copies of each stream: more than 1 only with that many servers of your own."
            ),
            "existingSecret": Value(
                "equipoise-nats",
                NAME,
                "Secret with a password per user: setup, collector, annotator, scorer, descheduler, binder, tap, and"
                " reclaimer if it is enabled.",
            ),
            "tls": Group(
                {
                    "existingSecret": Value(
                        "equipoise-nats-tls",
                        OPTIONAL_NAME,
                        "Secret with `ca.crt`, and for the server of the chart `tls.crt` and `tls.key`, by"
                        " `equipoise certificates --for nats` or cert-manager. Empty, only with your own servers: the"
                        " CAs of the image, or no TLS.",
                    )
                },
                "TLS to NATS.",
            ),
            "image": Group(
                {
                    "registry": Value("", TEXT, "Registry."),
                    "repository": Value(image, {"type": "string", "minLength": 1}, "Repository."),
                    "tag": Value(tag, TEXT, "Tag."),
                    "digest": Value("", DIGEST, "Digest; replaces the tag."),
                },
                "Image of the server.",
            ),
            "persistence": Group(
                {
                    "enabled": Value(True, BOOLEAN, "Keep streams in a volume. If false, they end with the pod."),
                    "storageClass": Value(
                        "", TEXT, "StorageClass; empty: that of the cluster, `-`: none. Not to be changed later."
                    ),
                    "size": Value(claim, QUANTITY, "Size of the volume. Not to be changed later."),
                },
                "The volume of the server.",
            ),
            "podSecurityContext": Value(
                base.at("StatefulSet", "nats", "spec.template.spec.securityContext"),
                ANY_OBJECT,
                "Security context of the pod.",
            ),
            "podAnnotations": Value({}, TEXTS, "Annotations of the pod."),
            "podLabels": Value({}, LABELS, "Labels of the pod."),
            **_pod(base.at("StatefulSet", "nats", "spec.template.spec.containers.0.resources")),
        },
        "NATS.",
        rule={
            "allOf": [
                {
                    "if": {"properties": {"enabled": {"const": True}}},
                    "then": {
                        "properties": {
                            "url": {"const": ""},
                            "replicas": {"const": 1},
                            "tls": {"properties": {"existingSecret": {"minLength": 1}}},
                        }
                    },
                    "else": {"properties": {"url": {"minLength": 1}}},
                }
            ]
        },
    )


def _service(base: Manifests, name: str) -> Group:
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
        **_replicated_pod(at("spec.template.spec")),
        "podDisruptionBudget": Group(
            {
                "enabled": Value(True, BOOLEAN, "Create a PodDisruptionBudget."),
                "maxUnavailable": Value(budget, COUNT_OR_SHARE, "Pods that may be disrupted at a time."),
            },
            "Voluntary disruptions.",
        ),
        "serviceAccount": _account(name),
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
