"""The alerts. Each one is an entry of `ALERTS`; rules, tests of rules and runbooks are made of this list.

The severities are those of kube-prometheus-stack. `critical` wakes somebody: no alert does. Whatever fails,
pods are scheduled as without Equipoise, running pods stay where they are, and the limits of evictions hold without any
action. `warning` is for working hours: it does not end by itself. `info` is for dashboards and for other alerts.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from equipoise.contracts.configuration.settings import Coverage, Freshness

Severity = Literal["critical", "warning", "info"]

SCOPE = "cluster, namespace"
"""Labels of an installation. Both may be missing in a Prometheus that scrapes one installation."""

REPLICA = "cluster, namespace, pod, instance"
"""Labels of a process."""

SERVICE_METRICS = {
    "collector": "equipoise_collector_nodes_expected",
    "annotator": "equipoise_annotator_members",
    "scorer": "equipoise_scorer_reservations",
    "descheduler": "equipoise_descheduler_nodes_in_cooldown",
    "binder": "equipoise_binder_ledger",
}
"""A metric that only this service has, from its start: a ServiceMonitor renames the label `service` of
`equipoise_build_info`, because it adds one of this name."""

_DAY = 86_400
_COVERAGE = Coverage()


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """Texts are Markdown of one paragraph; only `summary` is a template of Prometheus."""

    name: str
    expression: str
    lasts: str
    """How long the expression must be true: "15m"."""

    severity: Severity
    summary: str
    meaning: str
    action: str
    heals: str
    """What ends by itself, and what goes on meanwhile: the reason for the severity."""


def _problem(keys: str) -> str:
    """Problems of /readyz, per replica: the series ends with the problem."""
    operator = "=~" if "|" in keys or "*" in keys else "="
    return f'equipoise_problem{{key{operator}"{keys}"}} > 0'


def _no_replica(service: str, metric: str) -> str:
    ready = f"max by ({SCOPE}) (equipoise_ready and on ({REPLICA}) {metric}) == 0"
    return f'label_replace(({ready}) or absent({metric}), "component", "{service}", "", "")'


def _ledger(state: str) -> str:
    return f'max by ({SCOPE}) (equipoise_binder_ledger{{state="{state}"}}) > 0'


def _rejected_by(limit: str) -> str:
    return f'sum by ({SCOPE}) (increase(equipoise_binder_limit_rejections_total{{limit="{limit}"}}[30m])) > 0'


ALERTS: Sequence[Alert] = (
    Alert(
        name="EquipoiseServiceDown",
        expression="\nor ".join(_no_replica(service, metric) for service, metric in SERVICE_METRICS.items()),
        lasts="10m",
        severity="warning",
        summary="No replica of the {{ $labels.component }} is ready",
        meaning="No replica of this service is ready, or Prometheus scrapes none.",
        action=(
            "`kubectl -n equipoise-system get pods` and `/readyz` of the service (`equipoise doctor` requests it) "
            "state what it waits for. If the pods are ready, Prometheus does not scrape them: label its namespace "
            "with `equipoise.dev/metrics=true` and check its targets."
        ),
        heals=(
            "Nothing is evicted and scores are neutral without this service, at the latest after 3 minutes; "
            "kube-scheduler places pods as without Equipoise. A pod that crashed is restarted by its kubelet; after "
            "10 minutes that has not helped."
        ),
    ),
    Alert(
        name="EquipoiseReplicaNotReady",
        expression="equipoise_ready == 0",
        lasts="30m",
        severity="info",
        summary="{{ $labels.pod }} ({{ $labels.instance }}) is not ready",
        meaning="One replica has not been ready for half an hour. The others of its service do its work.",
        action="`/readyz` of this replica states what it waits for.",
        heals="Other replicas take over within 30 s. If all of them fail, `EquipoiseServiceDown` fires.",
    ),
    Alert(
        name="EquipoiseNatsUnreachable",
        expression=f'max by ({SCOPE}) (equipoise_bus_problems{{kind="connection"}}) > 0',
        lasts="10m",
        severity="warning",
        summary="Services of Equipoise are not connected to NATS",
        meaning=(
            "At least one service has not been connected to NATS for 10 minutes. `/readyz` has the address and the "
            "reason."
        ),
        action=(
            "Check the pod `nats-0`, its certificate and the passwords (Secret `equipoise-nats`). An expired or "
            "foreign certificate is named in `/readyz`: see [Certificates](install.md#certificates)."
        ),
        heals=(
            "Scores are neutral and nothing is evicted meanwhile. Services connect within seconds when NATS is "
            "back, also with a renewed certificate or password."
        ),
    ),
    Alert(
        name="EquipoiseStreamBroken",
        expression=f'sum by ({SCOPE}, kind) (equipoise_bus_problems{{kind=~"stream|follow|work"}}) > 0',
        lasts="15m",
        severity="warning",
        summary="Streams of NATS do not work ({{ $labels.kind }})",
        meaning=(
            "`stream`: a stream does not take messages, because it is missing, full, or has no majority of its "
            "servers. `follow`: a service cannot read one. `work`: binders receive no intents."
        ),
        action=(
            "`equipoise doctor` names the stream and the difference. `equipoise setup` (in a cluster: recreate the "
            "Job) repairs it."
        ),
        heals=(
            "After the loss of a server, streams elect a leader within seconds, and services read again without a "
            "restart. A deleted, changed or full stream remains so until somebody acts. Meanwhile loads become "
            "unknown and nothing is evicted."
        ),
    ),
    Alert(
        name="EquipoiseBusPermissionMissing",
        expression=f'max by ({REPLICA}) (equipoise_bus_problems{{kind="permission"}}) > 0',
        lasts="15m",
        severity="warning",
        summary="NATS forbids {{ $labels.pod }} ({{ $labels.instance }}) a subject that it needs",
        meaning=(
            "The permissions of NATS are those of another version, or the service uses the password of another user."
        ),
        action="Apply `permissions.conf` of this version to NATS. `/readyz` names the subject.",
        heals=(
            "Nothing: permissions do not change by themselves. What the service cannot read is unknown, so nothing "
            "unsafe follows."
        ),
    ),
    Alert(
        name="EquipoiseMessagesRedirected",
        expression=f'sum by ({SCOPE}) (increase(equipoise_bus_errors_total{{kind="redirected"}}[15m])) > 0',
        lasts="0m",
        severity="warning",
        summary="Messages reached services of Equipoise on subjects for which they were not published",
        meaning=(
            "Messages are signed with their subject. These came from a much older version, or from somebody who has "
            "the password of a service and repeats messages. The services skip and count them."
        ),
        action="The log of the service names the subjects. Unless an old version runs, change the passwords of NATS.",
        heals="The messages have no effect. Whoever sent them still has a password.",
    ),
    Alert(
        name="EquipoiseNatsCertificateExpires",
        expression=(
            f"max by ({SCOPE}) (equipoise_bus_certificate_expiry_timestamp_seconds > 0) - time() < {30 * _DAY}"
        ),
        lasts="1h",
        severity="warning",
        summary="The certificate of NATS expires in {{ $value | humanizeDuration }}",
        meaning="Once it has expired, connections remain open, but no service that starts or reconnects gets one.",
        action=(
            "Renew it ([NATS](install.md#nats) has the two commands). Services know the certificate of their "
            "last connection: the alert ends when one of them has connected again, for example after `kubectl -n "
            "equipoise-system rollout restart deployment equipoise-scorer`."
        ),
        heals=(
            "cert-manager renews it three months before, but NATS reads its files only on `kill -HUP`. There are 30 "
            "days left to act."
        ),
    ),
    Alert(
        name="EquipoiseExtenderCertificateExpires",
        expression=(
            f"min by ({SCOPE}) (equipoise_scorer_certificate_expiry_timestamp_seconds > 0) - time() < {30 * _DAY}"
        ),
        lasts="1h",
        severity="warning",
        summary="The certificate of the extender expires in {{ $value | humanizeDuration }}",
        meaning="Once it has expired, kube-scheduler gets no scores, and ignores that without a message.",
        action=(
            "`equipoise certificates --for extender` issues new ones of the same CA ([The "
            "extender](install.md#the-extender)). Renew that of kube-scheduler too: it was issued on the same "
            "day."
        ),
        heals=(
            "Scorers load renewed files while they run, and cert-manager renews them. Without a renewal pods are "
            "placed without scores."
        ),
    ),
    Alert(
        name="EquipoiseHintsWebhookCertificateExpires",
        expression=(
            f"min by ({SCOPE}) (equipoise_hints_webhook_certificate_expiry_timestamp_seconds > 0) - time() "
            f"< {30 * _DAY}"
        ),
        lasts="1h",
        severity="warning",
        summary="The certificate of the webhook of hints expires in {{ $value | humanizeDuration }}",
        meaning="Once it has expired, the API server does not call the webhook, and new pods get no placement hints.",
        action=(
            "Delete the Secret `equipoise-hints-webhook-tls` and run `helm upgrade`: the setup Job creates a new one "
            "([Passwords and certificates](install.md#passwords-and-certificates)). Replace a Secret of your own."
        ),
        heals=(
            "The webhook loads renewed files while it runs, the annotators give the API server the new CA, and "
            "cert-manager renews both. Without a renewal no pod is refused or delayed."
        ),
    ),
    Alert(
        name="EquipoiseCertificatesInvalid",
        expression=_problem("certificates"),
        lasts="10m",
        severity="warning",
        summary="{{ $labels.pod }} ({{ $labels.instance }}) cannot use its changed certificates",
        meaning=(
            "The files of the extender, or of the webhook of hints, changed and are not a certificate, its key and a "
            "CA. The previous ones are still used."
        ),
        action=(
            "`/readyz` of the pod has the reason. Replace the Secret `equipoise-extender-tls`, or "
            "`equipoise-hints-webhook-tls`."
        ),
        heals=(
            "A Secret that is being replaced becomes complete within a minute. After a restart, this pod would not "
            "start."
        ),
    ),
    Alert(
        name="EquipoiseConfigurationRejected",
        expression=_problem("configuration"),
        lasts="10m",
        severity="warning",
        summary="{{ $labels.pod }} ({{ $labels.instance }}) does not use the changed configuration",
        meaning="The configuration was changed and is invalid. The service continues with the previous one.",
        action=(
            "`/readyz` and the log have the reason; `equipoise config validate FILE` checks the file before it is "
            "applied."
        ),
        heals=(
            "Nothing until the file is corrected; then it is used within a minute. A new pod would not start with "
            "this file."
        ),
    ),
    Alert(
        name="EquipoiseFenceMissing",
        expression=_problem("fence"),
        lasts="10m",
        severity="warning",
        summary="The admission policy of {{ $labels.pod }} ({{ $labels.instance }}) is not in effect",
        meaning="The annotator, binder or reclaimer writes nothing until the policy that restricts it is in effect.",
        action=(
            "`kubectl apply -f k8s/base/fence.yaml`, for the reclaimer `k8s/colocation/reclaimer-fence.yaml`; they "
            "need Kubernetes 1.30, and name the namespace of the installation."
        ),
        heals=(
            "A policy takes effect some seconds after it was applied. Without it nothing is annotated or evicted, and "
            "the amounts in the status of nodes stay as they are."
        ),
    ),
    Alert(
        name="EquipoiseApprovalsRefused",
        expression=_problem("approvals"),
        lasts="10m",
        severity="warning",
        summary="The descheduler {{ $labels.pod }} ({{ $labels.instance }}) cannot approve evictions",
        meaning=(
            "The descheduler cannot write the Role `equipoise-approved-evictions`, and proposes nothing: the API "
            "server would refuse evictions that it has not approved."
        ),
        action=(
            "`/readyz` of the descheduler has the error, and `equipoise doctor` finds what is missing. Apply "
            "`k8s/base/descheduler.yaml` and `k8s/base/fence.yaml` of this version."
        ),
        heals="Each evaluation tries again. Until then nothing is evicted.",
    ),
    Alert(
        name="EquipoiseOtherInstallation",
        expression=_problem("installation"),
        lasts="10m",
        severity="warning",
        summary="Another installation of Equipoise works in the cluster, or this cannot be checked",
        meaning=(
            "Of two installations the younger one evicts and annotates nothing. `/readyz` names the namespace of "
            "the other one."
        ),
        action="Delete one of the two ([One installation per cluster](install.md#one-installation-per-cluster)).",
        heals="Ten minutes after the other one has stopped. Both never evict at the same time.",
    ),
    Alert(
        name="EquipoiseEvictionsWithoutCoverage",
        expression=(
            f"sum by ({SCOPE}) (equipoise_collector_nodes_fresh)"
            f" / sum by ({SCOPE}) (equipoise_collector_nodes_expected)"
            f" >= {_COVERAGE.score:.2f} < {_COVERAGE.eviction:.2f}"
        ),
        lasts="30m",
        severity="warning",
        summary="Only {{ $value | humanizePercentage }} of the nodes have fresh data: nothing is evicted",
        meaning=(
            f"Below {_COVERAGE.eviction:.0%} (`load.coverage.eviction`) the load of the cluster is not known well "
            "enough to evict."
        ),
        action=(
            "`equipoise_collector_nodes_unknown` has the number of nodes by reason, `/readyz` of the collector some "
            "of them, [Metrics](metrics.md#kube-prometheus-stack) what to do for each reason."
        ),
        heals=(
            "Nodes count again with their next fresh sample. Half an hour is more than a restart of Prometheus or "
            "an upgrade of nodes."
        ),
    ),
    Alert(
        name="EquipoiseScoresWithoutCoverage",
        expression=(
            f"sum by ({SCOPE}) (equipoise_collector_nodes_fresh) < "
            f"{_COVERAGE.score:.2f} * sum by ({SCOPE}) (equipoise_collector_nodes_expected)\n"
            f"or sum by ({SCOPE}) (equipoise_collector_nodes_expected) == 0"
        ),
        lasts="15m",
        severity="warning",
        summary="{{ $value }} nodes have fresh data: scores are neutral and nothing is evicted",
        meaning=(
            f"Fewer than {_COVERAGE.score:.0%} of the nodes (`load.coverage.score`) have fresh data, or no collector "
            "measures. Usually the source of metrics is not reachable, or reports another cluster."
        ),
        action=(
            "`/readyz` of the collector has the reason: Prometheus not reachable, `reports nodes of another "
            "cluster`, no Lease of a shard. `equipoise doctor` checks the source."
        ),
        heals="Collectors retry every few seconds. Meanwhile kube-scheduler places pods as without Equipoise.",
    ),
    Alert(
        name="EquipoiseClockSkew",
        expression=(
            f"max by ({SCOPE}) (abs(equipoise_collector_source_skew_seconds)) > {float(Freshness().skew_warning):g}"
        ),
        lasts="15m",
        severity="warning",
        summary="The clocks of the metric source and of the collector differ by {{ $value | humanizeDuration }}",
        meaning=(
            "The age of samples is wrong by as much. Above 10 s (`load.freshness.skewUnknown`) every load is unknown."
        ),
        action=(
            "Check time synchronization (chrony, systemd-timesyncd) on the nodes of the collector and of Prometheus."
        ),
        heals="A clock that is corrected. Until 10 s the difference is included in the age of samples.",
    ),
    Alert(
        name="EquipoiseLedgerUnreadable",
        expression=_ledger("unreadable"),
        lasts="15m",
        severity="warning",
        summary="Binders cannot read the ledger: nothing is evicted",
        meaning="The API server does not respond, or the binder may not read the ConfigMap `equipoise-ledger`.",
        action=(
            "`/readyz` of the binder has the reason. `kubectl auth can-i update configmap/equipoise-ledger -n "
            "equipoise-system --as system:serviceaccount:equipoise-system:equipoise-binder`."
        ),
        heals="Binders read it every 10 s. After an outage every limit is halved for an hour.",
    ),
    Alert(
        name="EquipoiseLedgerClosed",
        expression=_ledger("closed"),
        lasts="5m",
        severity="warning",
        summary="The ledger is missing or invalid: nothing is evicted",
        meaning=(
            "The ConfigMap `equipoise-ledger` was deleted, edited, or written by a later version. Recent evictions "
            "cannot be counted, so no limit can be checked."
        ),
        action=(
            "`equipoise status` has the reason. Restore the ConfigMap, or accept with `equipoise resume` that "
            "recent evictions no longer count; `equipoise resume --forget` replaces an invalid ledger."
        ),
        heals="Nothing: only a person knows whether the record may be lost. No eviction happens meanwhile.",
    ),
    Alert(
        name="EquipoiseEvictionsPaused",
        expression=_ledger("paused"),
        lasts="1d",
        severity="info",
        summary="Evictions have been paused for more than a day",
        meaning="Somebody ran `equipoise pause`, and perhaps forgot it.",
        action="`equipoise status` shows the reason that was given. `equipoise resume` ends the pause.",
        heals="A pause never ends by itself. Nodes become uneven meanwhile; new pods are still scored.",
    ),
    Alert(
        name="EquipoisePodDetached",
        expression=f'max by ({SCOPE}) (equipoise_binder_detached_pods{{late="true"}}) > 0',
        lasts="10m",
        severity="warning",
        summary="A pod is detached from its ReplicaSet for too long: a move without a gap does not end",
        meaning=(
            "The replacement of the pod was not ready in time (`readyTimeout`), and the pod could neither be evicted "
            "nor be given back to its ReplicaSet. Both pods serve meanwhile."
        ),
        action=(
            "`equipoise doctor detached` names the pod, what holds its move, and the command that ends it: an "
            "annotation or labels of the pod that somebody has edited, or a node that is being emptied. Other causes "
            "are a rollout that does not end, a PodDisruptionBudget that permits no eviction, and a workload whose "
            "pods are not ready. When the workload is ready without the pod, `kubectl delete pod` ends it."
        ),
        heals="Binders try again every few seconds, also while evictions are paused. No endpoint is missing meanwhile.",
    ),
    Alert(
        name="EquipoiseUnusualEvictionRate",
        expression=_rejected_by("unusualRate"),
        lasts="0m",
        severity="warning",
        summary="Far more evictions were proposed than on other days; the binders reject them",
        meaning=(
            "In 10 minutes there were three times as many evictions as the mean of the last day "
            "(`binder.limits.unusualRate`)."
        ),
        action=(
            "`equipoise plan` and `equipoise explain eviction NAMESPACE/POD` show why. If they are not intended, "
            "`equipoise pause`. If they are, for example after new nodes, raise the limit."
        ),
        heals="The limit stops the evictions and allows them again when the window has passed. The reason may go on.",
    ),
    Alert(
        name="EquipoiseCampaignStopped",
        expression=(
            f'max by ({SCOPE}) (equipoise_binder_campaign{{state="stopped"}}) > 0\n'
            f'and max by ({SCOPE}) (max_over_time(equipoise_binder_campaign{{state=~"running|paused"}}[6h])) > 0'
        ),
        lasts="0m",
        severity="warning",
        summary="A campaign has stopped before its end: the nodes are less even than it was to make them",
        meaning=(
            "`equipoise rebalance` was to make more moves, and the binders ended it: its moves did harm or no good, "
            "more pods had no node, nodes have left, or replacements did not become ready."
        ),
        action=(
            "`equipoise rebalance --status` and the Event `CampaignStopped` of the ledger have the reason. Remove it, "
            "look at a new plan with `equipoise rebalance`, and start another campaign if it is worth it."
        ),
        heals=(
            "The usual limits hold again, and evaluations level the nodes within them. The alert ends six hours after "
            "the campaign, or when another one starts."
        ),
    ),
    Alert(
        name="EquipoiseReplacementsLate",
        expression=_rejected_by("lateReplacements"),
        lasts="0m",
        severity="warning",
        summary="Replacements of evicted pods are not ready for minutes; nothing more is evicted",
        meaning=(
            "Three or more evicted pods have no ready replacement after five minutes "
            "(`binder.limits.lateReplacements`)."
        ),
        action=(
            "`equipoise status` lists them (pending). Find pods that are Pending or crash: missing capacity, "
            "images, volumes. Their workloads have fewer ready replicas, but never fewer than the limits require."
        ),
        heals=(
            "Evictions continue when the replacements are ready. A pod that cannot start would not have started "
            "after a drain either."
        ),
    ),
    Alert(
        name="EquipoiseReplacementsFailing",
        expression=_rejected_by("failingReplacements"),
        lasts="0m",
        severity="warning",
        summary="The replacement of an evicted pod cannot be created; no more pods of its namespace are evicted",
        meaning=(
            "A webhook or a quota rejects the pod that the controller wants to create "
            "(`binder.limits.failingReplacements`). If this concerns two namespaces, nothing is evicted in any."
        ),
        action=(
            "`equipoise status` has the message of the API server. Fix the webhook or quota; if the rejection is "
            "intended, run `equipoise resume`."
        ),
        heals="When the replacement is created. The workload lacks one replica until then, and the controller retries.",
    ),
    Alert(
        name="EquipoiseIntentsRefused",
        expression=(
            f"sum by ({SCOPE}) (increase(equipoise_binder_outcomes_total"
            '{outcome=~"rejected_.*|blocked_pdb|failed"}[6h])) > 20\n'
            f"unless sum by ({SCOPE}) "
            '(increase(equipoise_binder_outcomes_total{outcome=~"evicted|dry_run"}[6h])) > 0'
        ),
        lasts="1h",
        severity="info",
        summary="For six hours no proposed eviction was executed ({{ $value | humanize }} were refused)",
        meaning=(
            "Nodes are above their thresholds and moves are proposed, but each one is refused by a check or a limit."
        ),
        action=(
            "The dashboard Evictions shows the outcomes by reason and limit, `equipoise explain eviction "
            "NAMESPACE/POD` the details. [Troubleshooting](diagnose.md#troubleshooting) has an action for each "
            "outcome."
        ),
        heals=(
            "Limits allow evictions again when their windows have passed. A refusal does no harm: the nodes only "
            "stay uneven."
        ),
    ),
    Alert(
        name="EquipoiseNoEvaluations",
        expression=f"sum by ({SCOPE}) (increase(equipoise_descheduler_evaluation_duration_seconds_count[15m])) == 0",
        lasts="15m",
        severity="warning",
        summary="No descheduler evaluates the cluster",
        meaning=(
            "No replica holds the Lease `equipoise-descheduler`, or the leader has no working watch of the API server."
        ),
        action=(
            "`kubectl -n equipoise-system get lease equipoise-descheduler` shows the holder, `/readyz` of the "
            "deschedulers the reason. If `descheduler.interval` is longer than 15 minutes, change the rule."
        ),
        heals=(
            "Another replica takes the Lease within 30 s, and a watch is renewed within a minute. Nothing is "
            "evicted meanwhile."
        ),
    ),
    Alert(
        name="EquipoiseAnnotationsRefused",
        expression=_problem("annotate .*|api server"),
        lasts="30m",
        severity="warning",
        summary="The annotator {{ $labels.pod }} ({{ $labels.instance }}) cannot write annotations",
        meaning=(
            "The API server refuses annotations of nodes or workloads: a permission is missing, or a policy or "
            "webhook rejects them."
        ),
        action=(
            "`/readyz` of the annotator names an object and the error. Apply the roles of this version "
            "(`k8s/base/annotator.yaml`)."
        ),
        heals=(
            "The annotator retries with backoff. Scores and evictions do not use annotations; daily profiles "
            "survive in them."
        ),
    ),
    Alert(
        name="EquipoiseHintsNotWritten",
        expression=_problem("hints.*"),
        lasts="15m",
        severity="warning",
        summary="The annotator {{ $labels.pod }} ({{ $labels.instance }}) does not write placement hints",
        meaning=(
            "Placement hints are enabled, and new pods of some namespaces, or of all, get none. By key: the API server "
            "has no policy that adds hints to pods (`hints`), it refuses the hints of a namespace (`hints refused`), "
            "or writes wait for `annotator.hints.requestsPerSecond` (`hints expired`)."
        ),
        action=(
            "`/readyz` of the annotator has the reason, and `equipoise doctor` finds what is missing. Apply "
            "`k8s/hints` of this version, or disable hints ([placement hints](operate.md#placement-hints))."
        ),
        heals="Pods without hints are created and placed as without Equipoise. Writes are repeated with backoff.",
    ),
    Alert(
        name="EquipoiseEmptyNodeNotRemoved",
        expression=_problem("consolidation"),
        lasts="15m",
        severity="warning",
        summary="No autoscaler removes the node that the descheduler {{ $labels.pod }} has emptied",
        meaning=(
            "Consolidation has emptied a node, and it still exists after "
            "`descheduler.consolidation.removalTimeout` (30 min). Nothing is saved, and the node has the taint "
            "`equipoise.dev/consolidation`."
        ),
        action=(
            "`/readyz` of the leading descheduler names the node. Check that an autoscaler removes empty nodes "
            "(Karpenter: `consolidationPolicy: WhenEmpty`), or remove the node. Without an autoscaler, set "
            "`descheduler.consolidation.mode: observe` ([consolidation](operate.md#nodes-that-are-being-emptied))."
        ),
        heals="No other node is emptied meanwhile. Pods that fit nowhere else are still placed on the empty node.",
    ),
    Alert(
        name="EquipoiseTaintsRefused",
        expression=_problem("taints"),
        lasts="15m",
        severity="warning",
        summary="The annotator {{ $labels.pod }} ({{ $labels.instance }}) cannot write the taint of consolidation",
        meaning=(
            "A node is being emptied, or no longer, and the API server does not accept the change of its taint: "
            "`k8s/consolidation` is not applied, or a policy or webhook rejects it."
        ),
        action=(
            "`/readyz` of the annotator names the node and the error. Apply `k8s/consolidation` and "
            "`k8s/base/fence.yaml` of this version. `equipoise doctor emptying` names left-over taints."
        ),
        heals="The annotator retries with backoff. Scores and placement hints avoid the node without the taint, too.",
    ),
    Alert(
        name="EquipoiseWatchBroken",
        expression=_problem("watch .*"),
        lasts="15m",
        severity="warning",
        summary="The collector {{ $labels.pod }} ({{ $labels.instance }}) does not see changes ({{ $labels.key }})",
        meaning="A watch of the API server has failed for 15 minutes. The placement of pods that it publishes is old.",
        action=(
            "`/readyz` of the collector has the error. Check its role (`k8s/base/collector.yaml`) and the API server."
        ),
        heals=(
            "Watches are renewed with backoff, at most a minute. Binders validate each eviction with reads of their "
            "own."
        ),
    ),
    Alert(
        name="EquipoiseExtenderErrors",
        expression=(
            f'sum by ({SCOPE}) (rate(equipoise_scorer_requests_total{{result!="ok"}}[10m]))'
            f" > 0.05 * sum by ({SCOPE}) (rate(equipoise_scorer_requests_total[10m]))"
        ),
        lasts="15m",
        severity="warning",
        summary="The scorer answers more than 5 % of the requests with an error",
        meaning="kube-scheduler places these pods without scores, and does not report it.",
        action=(
            "The label `result` of `equipoise_scorer_requests_total` is the HTTP status: 400 is a scheduler of "
            "another configuration, 413 a body above `maxBodyBytes`, 503 too many requests at once (add replicas), "
            "500 an error of the scorer (its log)."
        ),
        heals="503 ends with the burst of pods. Scheduling is never stopped by it.",
    ),
    Alert(
        name="EquipoiseExtenderSlow",
        expression=(
            f"histogram_quantile(0.99, sum by ({SCOPE}, le) "
            '(rate(equipoise_scorer_request_duration_seconds_bucket{verb="prioritize"}[10m]))) > 0.1'
        ),
        lasts="15m",
        severity="warning",
        summary="1 % of the scores take longer than {{ $value | humanizeDuration }}",
        meaning=(
            "The scorer is slower than half of the `httpTimeout` of the shipped extender entry. Scheduling of pods "
            "is delayed."
        ),
        action=(
            "Check the CPU of the scorer and of its node, and `equipoise_event_loop_lag_seconds`. Add replicas, or "
            "raise its requests."
        ),
        heals=(
            "After its timeout, kube-scheduler places the pod without scores: at most 200 ms per pod are lost. That "
            "is no outage, but bursts of pods start later, so it should not stay."
        ),
    ),
    Alert(
        name="EquipoiseExtenderHandshakesFail",
        expression=(
            f'sum by ({SCOPE}) (increase(equipoise_scorer_connections_dropped_total{{reason="handshake"}}[15m])) > 5'
        ),
        lasts="15m",
        severity="warning",
        summary="TLS handshakes with the extender fail",
        meaning=(
            "A client without a valid certificate connects. If it is kube-scheduler, pods are placed without scores."
        ),
        action=(
            "Check the certificate of kube-scheduler: `openssl x509 -noout -enddate -in FILE`. If "
            "`equipoise_scorer_requests_total` grows as usual, it is another client: restrict the NetworkPolicy "
            "`equipoise-scorer`."
        ),
        heals="Nothing renews the files of kube-scheduler by itself: it reads them only at start.",
    ),
    Alert(
        name="EquipoiseScoresNeutral",
        expression=(
            f'sum by ({SCOPE}) (rate(equipoise_scorer_neutral_total{{reason=~"coverage|late"}}[15m]))'
            f' > 0.5 * sum by ({SCOPE}) (rate(equipoise_scorer_requests_total{{verb="prioritize"}}[15m]))'
        ),
        lasts="30m",
        severity="warning",
        summary="Most scores are neutral: the load of the cluster has no effect on the placement of pods",
        meaning="The scorer has no fresh data of enough nodes (`coverage`), or requests arrive too late (`late`).",
        action=(
            "`/readyz` of the scorer states which data are missing. See also `EquipoiseScoresWithoutCoverage` and "
            "`EquipoiseNatsUnreachable`."
        ),
        heals="Scores return with fresh data. Meanwhile kube-scheduler decides alone.",
    ),
    Alert(
        name="EquipoiseReclaimerNotEvaluating",
        expression=(
            f"time() - max by ({SCOPE}) "
            "(max_over_time(equipoise_reclaimer_last_evaluation_timestamp_seconds[6h])) > 900"
        ),
        lasts="5m",
        severity="warning",
        summary="No reclaimer has evaluated the nodes for more than 15 minutes",
        meaning=(
            "No replica of the reclaimer runs, or none holds the Lease `equipoise-reclaimer`. What nodes offer to "
            "batch pods does not follow their usage."
        ),
        action=(
            "`kubectl -n equipoise-system get lease equipoise-reclaimer` shows the holder, `/readyz` of the reclaimers "
            "the reason. If `reclaimer.interval` is longer than 15 minutes, change the rule. After an intended "
            "removal the alert ends within 6 hours; the amounts remain in the status of nodes, so remove them first "
            "(`reclaimer.strategy.enabled: false`)."
        ),
        heals=(
            "Another replica takes the Lease within 30 s. Meanwhile the amounts stay, and the agents still "
            "limit batch pods when others need the CPU."
        ),
    ),
    Alert(
        name="EquipoiseReclaimerWritesFail",
        expression=(f'sum by ({SCOPE}) (increase(equipoise_reclaimer_writes_total{{result="failed"}}[10m])) > 0'),
        lasts="20m",
        severity="warning",
        summary="The reclaimer cannot write what nodes offer to their status",
        meaning=(
            "The API server refuses writes, or does not respond. Amounts that should shrink stay, so kube-scheduler "
            "may bind more batch pods than fit."
        ),
        action=(
            "`/readyz` of the reclaimer that leads names a node and the error. Apply `k8s/colocation` of this version: "
            "its role and its policy. `reclaimer.mode: observe` ends the writes."
        ),
        heals=(
            "Each write is repeated with the next evaluation. Running pods stay, and the agents limit batch pods when "
            "others need the CPU."
        ),
    ),
    Alert(
        name="EquipoiseReclaimerWritesWait",
        expression=f"max by ({SCOPE}) (min_over_time(equipoise_reclaimer_writes_pending[30m])) > 0",
        lasts="15m",
        severity="info",
        summary="The status of at least {{ $value }} nodes has differed from what they offer for half an hour",
        meaning=(
            "More amounts change than the reclaimer may write (`reclaimer.writesPerSecond`), or it writes nothing "
            "because of a problem."
        ),
        action=(
            "`/readyz` of the reclaimer that leads has the problem, if there is one. Otherwise raise "
            "`reclaimer.writesPerSecond`, or `reclaimer.offer.minChange` so that fewer amounts change."
        ),
        heals="Amounts that shrink are written first. The others wait until fewer amounts change.",
    ),
    Alert(
        name="EquipoiseReclaimedAmountsContested",
        expression=f"max by ({SCOPE}) (equipoise_reclaimer_contested_nodes) > 0",
        lasts="5m",
        severity="warning",
        summary="Another program writes the batch and mid resources of {{ $value }} nodes",
        meaning=(
            "koord-manager, Volcano or another installation writes the same names to the status of nodes. The "
            "reclaimer does not write these nodes any more: two writers would change their amounts again and again."
        ),
        action=(
            "`kubectl get node NODE -o yaml --show-managed-fields` names the program. Run only one of them: stop it, "
            "or exclude these nodes with `reclaimer.pools` (`enabled: false`)."
        ),
        heals="The reclaimer writes a node again when nobody else has changed its amounts for an hour.",
    ),
    Alert(
        name="EquipoiseReclaimedAmountsDegraded",
        expression=(
            f'sum by ({SCOPE}) (equipoise_reclaimer_nodes{{state="degraded"}})'
            f" / sum by ({SCOPE}) (equipoise_reclaimer_nodes) > 0.1"
        ),
        lasts="30m",
        severity="warning",
        summary="{{ $value | humanizePercentage }} of the nodes offer reduced amounts, because their usage is unknown",
        meaning=(
            "Their samples are old, or an annotation from which their reservation is read is invalid. They offer less "
            "and less, down to what their batch pods request."
        ),
        action=(
            "`equipoise tap 'equipoise.reclaim.node.>'` shows the reason of each node (`degraded`). If samples "
            "are old, see `EquipoiseScoresWithoutCoverage` and `/readyz` of the collector."
        ),
        heals=(
            "Amounts grow again with fresh samples. No pod is removed: a node never offers less than its batch pods "
            "request."
        ),
    ),
    Alert(
        name="EquipoiseAgentMissing",
        expression=(
            f'sum by ({SCOPE}) (equipoise_reclaimer_nodes{{state!="disabled"}})'
            " - on (cluster) group_left () count by (cluster) (equipoise_agent_rounds_total) > 0\n"
            f'and sum by ({SCOPE}) (equipoise_reclaimer_amounts{{kind="requested"}}) > 0'
        ),
        lasts="15m",
        severity="warning",
        summary="{{ $value }} nodes that offer reclaimed resources have no agent",
        meaning=(
            "Pods of the bands are bound in the cluster, and fewer agents run, or are scraped, than nodes offer "
            "resources. On a node without an agent nothing limits batch pods."
        ),
        action=(
            "`kubectl get pods -A -l app.kubernetes.io/component=agent -o wide` shows where it runs: taints, node "
            "selectors. If it runs everywhere, Prometheus does not scrape its namespace. Where it is not wanted, "
            "disable the strategy of these nodes (`reclaimer.pools`)."
        ),
        heals=(
            "A DaemonSet starts the agent on new nodes within a minute. Batch pods have the lowest weight meanwhile, "
            "as all best-effort pods."
        ),
    ),
    Alert(
        name="EquipoiseAgentRoundsStopped",
        expression=f"count by ({SCOPE}) (increase(equipoise_agent_rounds_total[10m]) == 0)",
        lasts="5m",
        severity="warning",
        summary="The agents of {{ $value }} nodes run, and measure and limit nothing",
        meaning="An agent that responds to `/metrics` has not completed a round for 10 minutes.",
        action=(
            "`equipoise_agent_rounds_total` names the pods. `/readyz` and the log of the agent have the reason; delete "
            "the pod."
        ),
        heals=(
            "The kubelet restarts an agent whose `/healthz` fails. The limits that it wrote stay and are continued."
        ),
    ),
    Alert(
        name="EquipoiseAgentCannotLimit",
        expression=f'count by ({SCOPE}, key) (equipoise_problem{{key=~"kubepods|cgroups|pressure"}} > 0)',
        lasts="15m",
        severity="warning",
        summary="The agents of {{ $value }} nodes cannot limit batch pods as configured ({{ $labels.key }})",
        meaning=(
            "`cgroups`: the kernel refuses values, for example because the cgroups are mounted read-only. `kubepods`: "
            "the cgroup of the pods is not found or cannot be listed. `pressure`: the kernel does not report who waits "
            "for CPU: the kernel was booted with `psi=0`, or the node has cgroup v1 without a mounted cgroup v2. On "
            "such a node, the limits of each pod and `cpuThreshold` work, but no batch pod is limited by pressure."
        ),
        action=(
            "`equipoise_problem` names the pods, and `/readyz` of the agent the file and the error. Apply "
            "`k8s/colocation/agent.yaml` of this version, or set `agent.cgroupParent`. On nodes without pressure set "
            "`agent.suppression.cpuThreshold`, and `pressureThreshold: null`."
        ),
        heals=(
            "Each round writes again. Batch pods have the lowest weight meanwhile, as all best-effort pods, so that "
            "others get most of the CPU."
        ),
    ),
    Alert(
        name="EquipoiseBatchWorkSuppressed",
        expression=(
            f"count by ({SCOPE}) (sum by ({REPLICA}) (rate(equipoise_agent_suppressed_seconds_total[1h])) > 0.5)"
        ),
        lasts="2h",
        severity="info",
        summary="On {{ $value }} nodes batch pods have been limited for most of the last hours",
        meaning=(
            "Latency-sensitive pods wait for CPU, or the usage is above `agent.suppression.cpuThreshold`. Batch pods "
            "get less than they request, and their jobs take longer."
        ),
        action=(
            "The dashboard Co-location shows pressure and limits. If many nodes are affected, offer less: lower "
            "`reclaimer.strategy.cpuThreshold`, or raise `reclaimer.forecast.margin`."
        ),
        heals="The limit grows again by steps when nobody waits. What the node offers shrinks with its idle CPU.",
    ),
    Alert(
        name="EquipoiseBatchPodsEvicted",
        expression=f'sum by ({SCOPE}, reason) (increase(equipoise_agent_evictions_total{{result="evicted"}}[1h])) > 0',
        lasts="0m",
        severity="info",
        summary="Agents have evicted {{ $value | humanize }} batch pods within an hour ({{ $labels.reason }})",
        meaning=(
            "`memory`: a node used more than `agent.memoryEviction` permits. `cpu`: batch pods got less than "
            "`agent.cpuEviction` requires, for long. Pods of other bands are never evicted."
        ),
        action=(
            "The log of the agent names each pod and the reason. If it happens often, the nodes offer too much: "
            "lower `reclaimer.strategy.memoryThreshold`. `agent.evict: false` ends the evictions."
        ),
        heals="The controller of the pod creates it elsewhere. Others keep their memory and CPU.",
    ),
)
