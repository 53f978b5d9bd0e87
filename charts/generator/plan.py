"""What in k8s/base becomes a template expression: a list of (kind, name, path, expression), and conditions of objects.

An entry that changes nothing is an error, so that the plan follows k8s/base.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import yaml
from charts.generator.manifests import ROOT, Document
from charts.generator.template import Each, More, Node, Text, When, Yaml

from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.contracts.hints.policy import NAME as HINTS
from equipoise.contracts.kubernetes.mutating_policy import POLICY_KIND

NAMESPACE = "equipoise-system"
RELEASE_NAMESPACE = Text("{{ $.Release.Namespace }}")

Rewrite = Callable[[Any], Node]


@dataclass(frozen=True)
class Change:
    """`path` is separated by `/`; a list's `-` appends an item.

    A `value` that is a function gets the old value, which it may change: it is a copy.
    """

    kind: str
    name: str
    path: str
    value: Node | Rewrite


def value_of(expression: str) -> Text:
    """A scalar. `toJson` writes a string with quotation marks, and everything else as YAML has it, too."""
    return Text(f"{{{{ {expression} | toJson }}}}")


def filled(expression: str) -> When:
    """A mapping or list that is left out when it is empty."""
    return When(expression, Yaml(f"toYaml {expression}"))


def _pod(
    kind: str, name: str, values: str, *, template: str = "spec/template", component: str = ""
) -> Iterator[Change]:
    """What the pods of all programs have in common. `values`: the expression of their section. `component`: the label
    of the replicas that are spread over nodes and zones; empty if there is one pod.
    """

    def change(path: str, value: Node | Rewrite) -> Change:
        return Change(kind, name, f"{template}/{path}", value)

    yield change("spec/nodeSelector", filled(f"{values}.nodeSelector"))
    yield change("spec/tolerations", filled(f"{values}.tolerations"))
    if component:
        spread = f'include "equipoise.spread" (list $ "{component}" {values}.topologySpreadConstraints)'
        affinity = f'include "equipoise.affinity" (list $ "{component}" {values}.affinity)'
        yield change("spec/topologySpreadConstraints", When(f"{values}.topologySpreadConstraints", Yaml(spread)))
        yield change("spec/affinity", Yaml(affinity))
    else:
        yield change("spec/affinity", filled(f"{values}.affinity"))
    yield change(
        "spec/imagePullSecrets", When('include "equipoise.pullSecrets" $', Yaml('include "equipoise.pullSecrets" $'))
    )
    if name not in (
        "equipoise-prepare",
        "equipoise-setup",
        "equipoise-scheduler",
        "equipoise-python-scheduler",
        "equipoise-live-page",
    ):
        yield change(
            "spec/priorityClassName", When("$.Values.priorityClass.name", value_of("$.Values.priorityClass.name"))
        )
    yield change("spec/containers/0/imagePullPolicy", value_of("$.Values.image.pullPolicy"))
    yield change("spec/containers/0/resources", Yaml(f"toYaml {values}.resources"))
    yield change("spec/containers/0/securityContext", Yaml("toYaml $.Values.containerSecurityContext"))
    pod_context = (
        f"{values}.podSecurityContext" if name in ("nats", "equipoise-agent") else "$.Values.podSecurityContext"
    )
    yield change("spec/securityContext", Yaml(f"toYaml {pod_context}"))


def _secrets_of_the_bus(kind: str, name: str) -> Iterator[Change]:
    """In the projected volume `nats` of a service."""

    def sources(volumes: list[Document]) -> Node:
        volume = _item(volumes, "nats")
        passwords, certificate = volume["projected"]["sources"]
        passwords["secret"]["name"] = value_of("$.Values.nats.existingSecret")
        certificate["secret"]["name"] = value_of("$.Values.nats.tls.existingSecret")
        volume["projected"]["sources"] = [passwords, When("$.Values.nats.tls.existingSecret", certificate)]
        return volumes

    yield Change(kind, name, "spec/template/spec/volumes", sources)


def _deployment(name: str, values: str, *, component: str = "") -> Iterator[Change]:
    """What all Deployments with the image of the product have in common. `values`: the path of their values.
    `component`: as in `_pod`.
    """
    kind = "Deployment"
    annotations = {
        "checksum/config": Text('{{ include "equipoise.configuration" $ | sha256sum }}'),
        "more": More(f"{values}.podAnnotations"),
    }
    yield Change(kind, name, "spec/replicas", value_of(f"{values}.replicas"))
    yield Change(kind, name, "spec/revisionHistoryLimit", value_of("$.Values.revisionHistoryLimit"))
    yield Change(kind, name, "spec/template/metadata/annotations", annotations)
    yield Change(
        kind, name, "spec/template/metadata/labels/more", More(f"merge (dict) {values}.podLabels $.Values.commonLabels")
    )
    yield from _pod(kind, name, values, component=component)
    yield Change(kind, name, "spec/template/spec/containers/0/image", Text('{{ include "equipoise.image" $ }}'))


def _service(service: str) -> Iterator[Change]:
    name, values = f"equipoise-{service}", f"$.Values.{service}"
    kind = "Deployment"
    yield from _deployment(name, values, component=service)
    yield from _secrets_of_the_bus(kind, name)
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


BY_POLICY = 'and $.Values.hints.enabled (eq (include "equipoise.hintsAdmission" $) "policy")'
BY_WEBHOOK = 'and $.Values.hints.enabled (eq (include "equipoise.hintsAdmission" $) "webhook")'
"""What adds placement hints to pods."""


def _hints_webhook() -> Iterator[Change]:
    """The webhook of hints, and its CA in the annotators."""
    kind, name, values = "Deployment", "equipoise-hints-webhook", "$.Values.hints.webhook"
    pod = "spec/template/spec"
    secret = value_of(f"{values}.tls.existingSecret")

    def volume(at: str) -> Rewrite:
        def changed(volumes: list[Node]) -> Node:
            _item(volumes, at)["secret"]["secretName"] = secret
            return volumes

        return changed

    yield from _deployment(name, values, component="hints-webhook")
    yield Change(kind, name, f"{pod}/volumes", volume("tls"))
    cidrs = [Each("$.Values.networkPolicy.apiServerCidrs", {"ipBlock": {"cidr": Text("{{ . | toJson }}")}})]
    yield Change("NetworkPolicy", name, "spec/ingress/0/from", cidrs)
    yield Change(
        "NetworkPolicy", name, "spec/ingress", lambda rules: When("$.Values.networkPolicy.apiServerCidrs", rules)
    )
    yield Change(kind, "equipoise-annotator", f"{pod}/volumes", volume("hints-webhook"))


def _scorer() -> Iterator[Change]:
    """The port of the extender, and its certificate."""
    name, pod = "equipoise-scorer", "spec/template/spec"
    enabled = "$.Values.extender.enabled"
    secret = "and $.Values.extender.enabled $.Values.extender.tls.existingSecret"  # noqa: S105  an expression

    def volume(volumes: list[Node]) -> Node:
        _item(volumes, "extender-tls")["secret"]["secretName"] = value_of("$.Values.extender.tls.existingSecret")
        return _only_if(secret, "extender-tls", volumes)

    yield Change("Deployment", name, f"{pod}/containers/0/ports", partial(_only_if, enabled, "extender"))
    yield Change("Deployment", name, f"{pod}/containers/0/volumeMounts", partial(_only_if, secret, "extender-tls"))
    yield Change("Deployment", name, f"{pod}/volumes", volume)
    service = "$.Values.extender.service"
    yield Change("Service", name, "metadata/annotations", filled(f"{service}.annotations"))
    yield Change("Service", name, "spec/type", value_of(f"{service}.type"))
    yield Change("Service", name, "spec/clusterIP", When(f"{service}.clusterIP", value_of(f"{service}.clusterIP")))
    policy = "NetworkPolicy"
    cidrs = [Each("$.Values.networkPolicy.schedulerCidrs", {"ipBlock": {"cidr": Text("{{ . | toJson }}")}})]
    yield Change(policy, name, "spec/ingress/0/from", cidrs)
    yield Change(
        policy, name, "spec/ingress", lambda rules: When(f"and {enabled} $.Values.networkPolicy.schedulerCidrs", rules)
    )

    def egress(rules: list[Document]) -> Node:
        bus, dns = rules
        yours = {"ports": [Each('include "equipoise.natsPorts" $ | splitList ","', {"port": Text("{{ . }}")})]}
        return [
            When("$.Values.nats.enabled", bus),
            When("not $.Values.nats.enabled", yours),
            dns,
            More("$.Values.networkPolicy.extraEgress"),
        ]

    yield Change(policy, name, "spec/egress", egress)


def _item(items: list[Node], name: str) -> Document:
    """The one item of this name. Raises ValueError."""
    found: list[Document] = [each for each in items if isinstance(each, dict) and each.get("name") == name]
    if len(found) != 1:
        raise ValueError(f"not one item {name} in a list of k8s, but {len(found)}")
    return found[0]


def _only_if(condition: str, name: str, items: list[Node]) -> list[Node]:
    """The item of this name is there only under the condition."""
    conditional = _item(items, name)
    return [When(condition, each) if each is conditional else each for each in items]


def _setup() -> Iterator[Change]:
    kind, name, values = "Job", "equipoise-setup", "$.Values.setup"
    yield Change(kind, name, "spec/backoffLimit", value_of(f"{values}.backoffLimit"))
    yield Change(kind, name, "spec/ttlSecondsAfterFinished", value_of(f"{values}.ttlSecondsAfterFinished"))
    annotations = {"checksum/config": Text('{{ include "equipoise.configuration" $ | sha256sum }}')}
    yield Change(kind, name, "spec/template/metadata/annotations", annotations)
    yield Change(kind, name, "spec/template/metadata/labels/more", More("$.Values.commonLabels"))
    yield Change(kind, name, "spec/template/spec/containers/0/image", Text('{{ include "equipoise.image" $ }}'))
    yield from _pod(kind, name, values)
    yield from _secrets_of_the_bus(kind, name)


HOOK = {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
PREPARE = (
    ("ServiceAccount", "equipoise-prepare"),
    ("Role", "equipoise-prepare"),
    ("RoleBinding", "equipoise-prepare"),
    ("ClusterRole", "equipoise-prepare"),
    ("ClusterRoleBinding", "equipoise-prepare"),
    ("ValidatingAdmissionPolicy", "equipoise-prepare-fence"),
    ("ValidatingAdmissionPolicyBinding", "equipoise-prepare-fence"),
)
"""What the Job `equipoise-prepare` needs. Helm deletes it with the Job, when that has completed."""


def _prepare() -> Iterator[Change]:
    """Before anything else is created: a pod that waits for a Secret looks for it less and less often."""
    kind, name, values = "Job", "equipoise-prepare", "$.Values.prepare"
    for each, its_name in PREPARE:
        yield Change(each, its_name, "metadata/annotations", {**HOOK, "helm.sh/hook-weight": "-1"})
    # Helm 4 prints its log when it has failed.
    yield Change(kind, name, "metadata/annotations", {**HOOK, "helm.sh/hook-output-log-policy": "hook-failed"})
    yield Change(kind, name, "spec/template/metadata/labels/more", More("$.Values.commonLabels"))
    container = "spec/template/spec/containers/0"
    yield Change(kind, name, f"{container}/image", Text('{{ include "equipoise.image" $ }}'))
    tls = ' (ne $.Values.nats.tls.existingSecret "equipoise-nats-tls")'
    extender = (
        ' (ne $.Values.extender.tls.existingSecret "equipoise-extender-tls")'
        ' (ne $.Values.extender.tls.clientSecret "equipoise-extender-client")'
    )
    yours = {
        "passwords": '(not $.Values.nats.enabled) (ne $.Values.nats.existingSecret "equipoise-nats")',
        "nats-certificate": f"$.Values.certManager.enabled (not $.Values.nats.enabled){tls}",
        "extender-certificates": f"$.Values.certManager.enabled (not $.Values.extender.enabled){extender}",
        "hints-webhook-certificate": f"$.Values.certManager.enabled (not ({BY_WEBHOOK}))"
        ' (ne $.Values.hints.webhook.tls.existingSecret "equipoise-hints-webhook-tls")',
    }
    # The ConfigMap of the services does not exist yet.
    mount = {"name": "configuration", "mountPath": "/etc/equipoise", "readOnly": True}
    file = Text('{{ include "equipoise.fullname" $ }}-prepare')
    yield Change(
        kind, name, f"{container}/env/-", {"name": "EQUIPOISE_CONFIG", "value": "/etc/equipoise/equipoise.yaml"}
    )
    yield Change(kind, name, f"{container}/volumeMounts/-", mount)
    yield Change(kind, name, "spec/template/spec/volumes/-", {"name": "configuration", "configMap": {"name": file}})
    volume = "and $.Values.nats.enabled $.Values.nats.persistence.enabled (not $.Values.nats.persistence.storageClass)"
    yield Change(kind, name, f"{container}/command/-", When(volume, "--volume"))
    for part, condition in yours.items():
        yield Change(kind, name, f"{container}/command/-", When(f"or {condition}", f"--without={part}"))
    yield from _pod(kind, name, values)


def _nats() -> Iterator[Change]:
    kind, name, values = "StatefulSet", "nats", "$.Values.nats"

    def passwords(variables: list[Document]) -> Node:
        for each in variables:
            if "valueFrom" in each:
                each["valueFrom"]["secretKeyRef"]["name"] = value_of(f"{values}.existingSecret")
        return variables

    def reclaimer(variables: list[Document]) -> Node:
        """Of k8s/colocation."""
        text = yaml.safe_load((ROOT / "k8s" / "colocation" / "kustomization.yaml").read_text())
        (patch,) = text["patches"]
        added = passwords([operation["value"] for operation in yaml.safe_load(patch["patch"])])
        return [*variables, *(When("$.Values.reclaimer.enabled", each) for each in added)]

    def volumes(old: list[Document]) -> Node:
        _item(old, "tls")["secret"]["secretName"] = value_of(f"{values}.tls.existingSecret")
        return [*old, When(f"not {values}.persistence.enabled", {"name": "data", "emptyDir": {}})]

    pod = "spec/template/spec"
    checksum = '{{ print ($.Files.Get "files/nats.conf") (include "equipoise.permissions" $) | sha256sum }}'
    annotations = {"checksum/config": Text(checksum), "more": More(f"{values}.podAnnotations")}
    labels = More(f"merge (dict) {values}.podLabels $.Values.commonLabels")
    yield Change(kind, name, "spec/template/metadata/annotations", annotations)
    yield Change(kind, name, "spec/template/metadata/labels/more", labels)
    yield Change(kind, name, f"{pod}/containers/0/image", Text('{{ include "equipoise.natsImage" $ }}'))
    yield Change(kind, name, f"{pod}/containers/0/env", lambda variables: reclaimer(passwords(variables)))
    yield Change(kind, name, f"{pod}/volumes", volumes)
    yield from _pod(kind, name, values)
    claim = "spec/volumeClaimTemplates"
    storage = f"{values}.persistence.storageClass"
    class_name = Text(f'{{{{ ternary "" {storage} (eq {storage} "-") | toJson }}}}')
    yield Change(kind, name, f"{claim}/0/spec/storageClassName", When(storage, class_name))
    yield Change(kind, name, f"{claim}/0/spec/resources/requests/storage", value_of(f"{values}.persistence.size"))
    yield Change(kind, name, claim, lambda claims: When(f"{values}.persistence.enabled", claims))


def _second_scheduler() -> Iterator[Change]:
    kind, name, values = "Deployment", "equipoise-scheduler", "$.Values.secondScheduler"
    only_with_tls = partial(_only_if, "$.Values.extender.tls.existingSecret", "extender-client")

    def volumes(old: list[Document]) -> Node:
        _item(old, "extender-client")["secret"]["secretName"] = value_of("$.Values.extender.tls.clientSecret")
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
    yield from _pod(kind, name, values)


def _python_scheduler() -> Iterator[Change]:
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
    yield from _pod(kind, name, values)
    yield Change("ServiceAccount", name, "metadata/annotations", filled(f"{values}.serviceAccount.annotations"))


def _live_page() -> Iterator[Change]:
    kind, name, values = "Deployment", "equipoise-live-page", "$.Values.livePage"
    yield from _deployment(name, values)

    def variables(old: list[Document]) -> Node:
        _item(old, "EQUIPOISE_NATS__URL")["value"] = Text('{{ include "equipoise.natsUrl" $ | toJson }}')
        return _only_if("$.Values.nats.tls.existingSecret", "EQUIPOISE_NATS__TLS__CA_FILE", old)

    container = "spec/template/spec/containers/0"
    yield Change(kind, name, f"{container}/image", Text('{{ include "equipoise.image" $ }}'))
    yield Change(kind, name, f"{container}/env", variables)
    hosts = Each(f"{values}.allowHosts", Text('{{ print "--allow-host=" . | toJson }}'))
    yield Change(kind, name, f"{container}/args/-", hosts)
    yield from _secrets_of_the_bus(kind, name)
    yield Change("ServiceAccount", name, "metadata/annotations", filled(f"{values}.serviceAccount.annotations"))
    yield Change("NetworkPolicy", name, "spec/ingress/0/from", Yaml(f"toYaml {values}.allowFrom"))


def _agent() -> Iterator[Change]:
    kind, name, values = "DaemonSet", "equipoise-agent", "$.Values.agent"
    labels = More(f"merge (dict) {values}.podLabels $.Values.commonLabels")
    yield Change(kind, name, "spec/revisionHistoryLimit", value_of("$.Values.revisionHistoryLimit"))
    yield Change(kind, name, "spec/template/metadata/annotations", filled(f"{values}.podAnnotations"))
    yield Change(kind, name, "spec/template/metadata/labels/more", labels)
    yield Change(kind, name, "spec/template/spec/containers/0/image", Text('{{ include "equipoise.image" $ }}'))
    yield from _pod(kind, name, values)
    yield Change("ServiceAccount", name, "metadata/annotations", filled(f"{values}.serviceAccount.annotations"))
    settings = Yaml('include "equipoise.agentConfiguration" $ | toYaml')
    yield Change("ConfigMap", name, "data", {"equipoise.yaml": settings})

    def expression(old: str) -> Node:
        return Text(json.dumps(old).replace(NAMESPACE, RELEASE_NAMESPACE.text))

    policy = yaml.safe_load_all((ROOT / "k8s" / "colocation" / "agent.yaml").read_text())
    (fence,) = (each for each in policy if each["kind"] == "ValidatingAdmissionPolicy")
    for place, validation in enumerate(fence["spec"]["validations"]):
        if NAMESPACE in validation["expression"]:
            path = f"spec/validations/{place}/expression"
            yield Change("ValidatingAdmissionPolicy", "equipoise-agent-fence", path, expression)


def _certificates() -> Iterator[Change]:
    for name, secret in (
        ("equipoise-nats", "nats.tls.existingSecret"),
        ("equipoise-extender-tls", "extender.tls.existingSecret"),
        ("equipoise-extender-client", "extender.tls.clientSecret"),
        ("equipoise-hints-webhook-tls", "hints.webhook.tls.existingSecret"),
    ):
        yield Change("Certificate", name, "spec/secretName", value_of(f"$.Values.{secret}"))
        yield Change("Certificate", name, "spec/duration", value_of("$.Values.certManager.duration"))
        yield Change("Certificate", name, "spec/renewBefore", value_of("$.Values.certManager.renewBefore"))

    def names(old: list[str]) -> Node:
        """Those of k8s stay: the entry of kube-scheduler verifies one of them, whatever the namespace is."""
        own = [Text(each.replace(NAMESPACE, RELEASE_NAMESPACE.text)) for each in old if NAMESPACE in each]
        elsewhere = f'ne $.Release.Namespace "{NAMESPACE}"'
        return [*(Text(each) for each in old), *(When(elsewhere, each) for each in own)]

    for name in ("equipoise-nats", "equipoise-extender-tls", "equipoise-hints-webhook-tls"):
        yield Change("Certificate", name, "spec/dnsNames", names)


def _policies() -> Iterator[Change]:
    overlay = yaml.safe_load((ROOT / "k8s" / "overlays" / "crane" / "kustomization.yaml").read_text())
    (patch,) = overlay["patches"]
    (operation,) = yaml.safe_load(patch["patch"])

    def own_annotations(variables: list[Document]) -> Node:
        crane, base = "$.Values.crane.enabled", "not $.Values.crane.enabled"
        return [When(crane, operation["value"]), When(base, variables[0]), *variables[1:]]

    yield Change(patch["target"]["kind"], patch["target"]["name"], "spec/variables", own_annotations)
    for name in ("equipoise-metrics", "equipoise-colocation-metrics", "equipoise-agent"):
        yield Change(
            "NetworkPolicy",
            name,
            "spec/ingress/0/from/0/namespaceSelector/matchLabels",
            Yaml("toYaml $.Values.networkPolicy.metricsNamespaceLabels"),
        )
    for kind in (POLICY_KIND, f"{POLICY_KIND}Binding"):
        yield Change(kind, HINTS, "apiVersion", Text('{{ include "equipoise.hintsApiVersion" $ }}'))
    yield Change("PriorityClass", "equipoise", "value", value_of("int64 $.Values.priorityClass.value"))
    shares = "spec/limited/nominalConcurrencyShares"
    yield Change(
        "PriorityLevelConfiguration", "equipoise", shares, value_of("$.Values.flowControl.nominalConcurrencyShares")
    )


def plan() -> list[Change]:
    return [
        *(change for service in ALL_SERVICES for change in _service(service)),
        *_scorer(),
        *_hints_webhook(),
        *_prepare(),
        *_setup(),
        *_nats(),
        *_second_scheduler(),
        *_python_scheduler(),
        *_live_page(),
        *_agent(),
        *_certificates(),
        *_policies(),
    ]


EVICTS = 'has $.Values.mode (list "advise" "evict")'
CONDITIONS: list[tuple[str, str, str, str]] = [
    # file, kind, name, condition; of several that match, all must hold
    *(
        ("*", "PodDisruptionBudget", f"equipoise-{name}", f"$.Values.{name}.podDisruptionBudget.enabled")
        for name in ALL_SERVICES
    ),
    *(
        ("*", "ServiceAccount", f"equipoise-{name}", f"$.Values.{name}.serviceAccount.create")
        for name in (*ALL_SERVICES, "agent")
    ),
    *(
        ("*", kind, "*", "$.Values.rbac.create")
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
    ("*", "ClusterRoleBinding", "equipoise-evict", f"and ({EVICTS}) (not $.Values.namespaces)"),
    ("*", "RoleBinding", "equipoise-evict", EVICTS),
    ("prepare/prepare.yaml", "*", "*", "and $.Values.prepare.enabled $.Values.rbac.create"),
    ("base/annotator.yaml", "*", "*", "$.Values.annotator.enabled"),
    ("base/nats.yaml", "*", "*", "$.Values.nats.enabled"),
    ("*", "NetworkPolicy", "*", "$.Values.networkPolicy.enabled"),
    ("*", "NetworkPolicy", "equipoise-nats", "$.Values.nats.enabled"),
    ("*", "Service", "equipoise-scorer", "$.Values.extender.enabled"),
    ("*", "PriorityClass", "*", "and $.Values.priorityClass.create $.Values.priorityClass.name"),
    ("base/flow-control.yaml", "*", "*", "$.Values.flowControl.enabled"),
    ("scheduler/second-scheduler.yaml", "*", "*", "$.Values.secondScheduler.enabled"),
    ("scheduler/equipoise-scheduler.yaml", "*", "*", "$.Values.scheduler.enabled"),
    ("scheduler/equipoise-scheduler.yaml", "ServiceAccount", "*", "$.Values.scheduler.serviceAccount.create"),
    ("live-page/*", "*", "*", "$.Values.livePage.enabled"),
    ("hints/[da]*", "*", "*", "$.Values.hints.enabled"),
    ("hints/policy.yaml", "*", "*", BY_POLICY),
    ("hints/webhook.yaml", "*", "*", BY_WEBHOOK),
    ("deletion-costs/*", "*", "*", "$.Values.annotator.enabled"),
    ("deletion-costs/*", "*", "*", 'ne $.Values.deletionCosts "none"'),
    ("surge/*", "*", "*", 'ne $.Values.surge "none"'),
    ("surge/*", "*", "equipoise-binder-detach", EVICTS),
    ("colocation/reclaimer*", "*", "*", "$.Values.reclaimer.enabled"),
    ("colocation/agent.yaml", "*", "*", "$.Values.agent.enabled"),
    ("colocation/evictions/*", "*", "*", "and $.Values.agent.enabled $.Values.agent.evictions"),
    ("colocation/*", "FlowSchema", "*", "$.Values.flowControl.enabled"),
    ("live-page/*", "ServiceAccount", "*", "$.Values.livePage.serviceAccount.create"),
    ("live-page/*", "NetworkPolicy", "*", "$.Values.livePage.allowFrom"),  # an empty list would admit everybody
    ("cert-manager/*", "*", "*", "$.Values.certManager.enabled"),
    ("cert-manager/*", "*", "equipoise-nats*", "$.Values.nats.enabled"),
    (
        "cert-manager/*",
        "*",
        "equipoise-extender*",
        "and $.Values.extender.enabled $.Values.extender.tls.existingSecret",
    ),
]
