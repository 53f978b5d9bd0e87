"""For each alert, series for which it fires and series for which it is silent, as `promtool test rules` reads them."""

from collections.abc import Mapping, Sequence

import msgspec

from monitoring.alerts import SERVICE_METRICS

INTERVAL = "1m"
"""Between two samples."""

EVALUATION_INTERVAL = "5m"
"""Between two evaluations of the rules."""

_OWN = 'namespace="equipoise-system"'
_AGENTS = 'namespace="equipoise-agent"'
_NAMESPACE = {"namespace": "equipoise-system"}
_NAMESPACE_OF_AGENTS = {"namespace": "equipoise-agent"}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    alert: str
    about: str
    series: Mapping[str, str]
    """Selector to values: "1x60" is 1 for an hour, "0+2x60" grows by 2 each minute."""

    at: str
    fires: Mapping[str, str] | None = None
    """The labels of the alert, without its severity; None: it is silent."""

    value: str = ""
    """As the summary shows it."""


def _pod(name: str, number: int = 0) -> str:
    return f'{_OWN},pod="{name}-{number}",instance="10.0.0.{number}:8081"'


def _labels(name: str, number: int = 0, **more: str) -> dict[str, str]:
    return {**_NAMESPACE, "pod": f"{name}-{number}", "instance": f"10.0.0.{number}:8081", **more}


def _services(*, not_ready: str = "", without: str = "") -> dict[str, str]:
    """Two replicas of each service."""
    series = {}
    for service in SERVICE_METRICS.keys() - {without}:
        more = ',state="allowed"' if service == "binder" else ""
        for number in range(2):
            series[f"{SERVICE_METRICS[service]}{{{_pod(service, number)}{more}}}"] = "1x90"
            series[f"equipoise_ready{{{_pod(service, number)}}}"] = "0x90" if service == not_ready else "1x90"
    return dict(sorted(series.items()))


def _problem(alert: str, key: str, service: str, *, lasts: int) -> Sequence[Case]:
    """Fires for a problem of a replica after this time, and not if the problem ends before."""
    name = f'equipoise_problem{{{_pod(service)},key="{key}"}}'
    return (
        Case(
            alert=alert,
            about=f"the {service} reports the problem {key}",
            series={name: "1x90"},
            at=f"{lasts + 1}m",
            fires=_labels(service, key=key),
        ),
        Case(
            alert=alert,
            about="the problem ends, and another one goes on",
            series={
                name: f"1x{lasts - 2} stale",
                f'equipoise_problem{{{_pod(service)},key="cooldown"}}': "1x90",
            },
            at=f"{lasts + 1}m",
        ),
    )


def _ledger(alert: str, state: str, *, fires_at: str) -> Sequence[Case]:
    name = f'equipoise_binder_ledger{{{_pod("binder")},state="%s"}}'
    return (
        Case(
            alert=alert,
            about=f"the ledger is {state}",
            series={name % state: "1x1500", name % "allowed": "0x1500"},
            at=fires_at,
            fires=_NAMESPACE,
        ),
        Case(
            alert=alert,
            about="the ledger is allowed",
            series={name % state: "0x1500", name % "allowed": "1x1500"},
            at=fires_at,
        ),
    )


def _rejected(alert: str, limit: str) -> Sequence[Case]:
    name = 'equipoise_binder_limit_rejections_total{%s,limit="%s"}'
    return (
        Case(
            alert=alert,
            about=f"{limit} rejected an intent, and later none",
            series={name % (_pod("binder"), limit): "0x10 1x80"},
            at="20m",
            fires=_NAMESPACE,
        ),
        Case(
            alert=alert,
            about="other limits rejected intents, and this one an hour ago",
            series={
                name % (_pod("binder"), limit): "0x10 1x80",
                name % (_pod("binder"), "evictionsPerCluster"): "0+1x90",
            },
            at="60m",
        ),
    )


def _certificate(alert: str, metric: str, service: str) -> Sequence[Case]:
    """At time 0 a certificate that is valid for 29 days, or for 31."""

    def series(days: int) -> Mapping[str, str]:
        return {f"{metric}{{{_pod(service, 1)}}}": f"{days * 86_400}x90", f"{metric}{{{_pod(service, 2)}}}": "0x90"}

    return (
        Case(
            alert=alert,
            about="29 days are left, and a replica without TLS reports 0",
            series=series(29),
            at="61m",
            fires=_NAMESPACE,
            value="28d 23h 0m 0s",
        ),
        Case(
            alert=alert,
            about="31 days are left, or there is no TLS",
            series=series(31),
            at="61m",
        ),
    )


def _bus(alert: str, kind: str, *, at: str, fires: Mapping[str, str]) -> Sequence[Case]:
    problem = f'equipoise_bus_problems{{{_pod("scorer")},kind="%s"}}'
    return (
        Case(
            alert=alert,
            about=f"problems of the kind {kind}",
            series={problem % kind: "1x90"},
            at=at,
            fires=fires,
        ),
        Case(
            alert=alert,
            about="only problems of another kind, and one that ended",
            series={problem % kind: "1x5 0x90", problem % "slow": "1x90"},
            at=at,
        ),
    )


def _coverage(fresh: int, second: str = "0x90") -> dict[str, str]:
    """Of 100 nodes; a standby counts none."""
    return {
        f"equipoise_collector_nodes_fresh{{{_pod('collector', 1)}}}": f"{fresh}x90",
        f"equipoise_collector_nodes_expected{{{_pod('collector', 1)}}}": "100x90",
        f"equipoise_collector_nodes_fresh{{{_pod('collector', 2)}}}": second,
        f"equipoise_collector_nodes_expected{{{_pod('collector', 2)}}}": second,
    }


def _requests(result: str) -> str:
    return f'equipoise_scorer_requests_total{{{_pod("scorer")},verb="prioritize",result="{result}"}}'


def _buckets(fast: int, slow: int) -> dict[str, str]:
    """Requests per minute of at most 0.05 s, and of at most 0.2 s."""
    name = f'equipoise_scorer_request_duration_seconds_bucket{{{_pod("scorer")},verb="prioritize",le="%s"}}'
    return {
        name % "0.05": f"0+{fast}x90",
        name % "0.1": f"0+{fast}x90",
        name % "0.2": f"0+{fast + slow}x90",
        name % "+Inf": f"0+{fast + slow}x90",
    }


_CAMPAIGN = f'equipoise_binder_campaign{{{_pod("binder")},state="%s"}}'
_OUTCOMES = f'equipoise_binder_outcomes_total{{{_pod("binder")},outcome="%s"}}'
_EVALUATIONS = f"equipoise_descheduler_evaluation_duration_seconds_count{{{_pod('descheduler', 1)}}}"
_HANDSHAKES = f'equipoise_scorer_connections_dropped_total{{{_pod("scorer")},reason="%s"}}'
_NEUTRAL = f'equipoise_scorer_neutral_total{{{_pod("scorer")},reason="%s"}}'
_REDIRECTED = f'equipoise_bus_errors_total{{{_pod("binder")},kind="%s"}}'
_DETACHED = f'equipoise_binder_detached_pods{{{_pod("binder")},late="%s"}}'
_SKEW = f"equipoise_collector_source_skew_seconds{{{_pod('collector')}}}"

_OFFERING = f'equipoise_reclaimer_nodes{{{_pod("reclaimer", 1)},state="%s"}}'
_REQUESTED = f'equipoise_reclaimer_amounts{{{_pod("reclaimer", 1)},band="batch",resource="cpu",kind="requested"}}'
_STATUS_WRITES = f'equipoise_reclaimer_writes_total{{{_pod("reclaimer", 1)},result="%s"}}'


def _evaluated(number: int) -> str:
    return f"equipoise_reclaimer_last_evaluation_timestamp_seconds{{{_pod('reclaimer', number)}}}"


def _waiting(number: int) -> str:
    return f"equipoise_reclaimer_writes_pending{{{_pod('reclaimer', number)}}}"


def _contested(number: int) -> str:
    return f"equipoise_reclaimer_contested_nodes{{{_pod('reclaimer', number)}}}"


def _agent(metric: str, number: int, **labels: str) -> str:
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    place = _pod("agent", number).replace(_OWN, _AGENTS)
    return f"{metric}{{{place}{more}}}"


CASES: Sequence[Case] = (
    Case(
        alert="EquipoiseServiceDown",
        about="both replicas of the scorer are not ready",
        series=_services(not_ready="scorer"),
        at="11m",
        fires={**_NAMESPACE, "component": "scorer"},
    ),
    Case(
        alert="EquipoiseServiceDown",
        about="no binder is scraped",
        series=_services(without="binder"),
        at="11m",
        fires={"component": "binder"},
    ),
    Case(
        alert="EquipoiseServiceDown",
        about="one of two replicas is not ready",
        series=_services() | {f"equipoise_ready{{{_pod('scorer', 1)}}}": "0x90"},
        at="60m",
    ),
    Case(
        alert="EquipoiseReplicaNotReady",
        about="a replica is not ready for half an hour",
        series={f"equipoise_ready{{{_pod('scorer', 1)}}}": "0x90", f"equipoise_ready{{{_pod('scorer', 2)}}}": "1x90"},
        at="31m",
        fires=_labels("scorer", 1),
    ),
    Case(
        alert="EquipoiseReplicaNotReady",
        about="a replica starts within half an hour",
        series={f"equipoise_ready{{{_pod('scorer', 1)}}}": "0x20 1x90"},
        at="60m",
    ),
    *_bus("EquipoiseNatsUnreachable", "connection", at="11m", fires=_NAMESPACE),
    *_bus("EquipoiseStreamBroken", "stream", at="16m", fires={**_NAMESPACE, "kind": "stream"}),
    *_bus("EquipoiseBusPermissionMissing", "permission", at="16m", fires=_labels("scorer")),
    Case(
        alert="EquipoiseMessagesRedirected",
        about="a message was redirected",
        series={_REDIRECTED % "redirected": "0x10 1x80"},
        at="15m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoiseMessagesRedirected",
        about="connections are lost, and a message was redirected before",
        series={_REDIRECTED % "redirected": "3x90", _REDIRECTED % "connection": "0+1x90"},
        at="60m",
    ),
    *_certificate("EquipoiseNatsCertificateExpires", "equipoise_bus_certificate_expiry_timestamp_seconds", "binder"),
    *_certificate(
        "EquipoiseExtenderCertificateExpires", "equipoise_scorer_certificate_expiry_timestamp_seconds", "scorer"
    ),
    *_certificate(
        "EquipoiseHintsWebhookCertificateExpires",
        "equipoise_hints_webhook_certificate_expiry_timestamp_seconds",
        "hints-webhook",
    ),
    *_problem("EquipoiseCertificatesInvalid", "certificates", "scorer", lasts=10),
    *_problem("EquipoiseConfigurationRejected", "configuration", "binder", lasts=10),
    *_problem("EquipoiseFenceMissing", "fence", "annotator", lasts=10),
    *_problem("EquipoiseApprovalsRefused", "approvals", "descheduler", lasts=10),
    *_problem("EquipoiseOtherInstallation", "installation", "binder", lasts=10),
    Case(
        alert="EquipoiseEvictionsWithoutCoverage",
        about="75 of 100 nodes have fresh data",
        series=_coverage(75),
        at="31m",
        fires=_NAMESPACE,
        value="75%",
    ),
    Case(
        alert="EquipoiseEvictionsWithoutCoverage",
        about="80 of 100 nodes have fresh data",
        series=_coverage(80),
        at="60m",
    ),
    Case(
        alert="EquipoiseEvictionsWithoutCoverage",
        about="so few nodes have fresh data that EquipoiseScoresWithoutCoverage fires",
        series=_coverage(60),
        at="60m",
    ),
    Case(
        alert="EquipoiseScoresWithoutCoverage",
        about="69 of 100 nodes have fresh data",
        series=_coverage(69),
        at="16m",
        fires=_NAMESPACE,
        value="69",
    ),
    Case(
        alert="EquipoiseScoresWithoutCoverage",
        about="no collector measures",
        series=dict.fromkeys(_coverage(0), "0x90"),
        at="16m",
        fires=_NAMESPACE,
        value="0",
    ),
    Case(
        alert="EquipoiseScoresWithoutCoverage",
        about="two collectors share the nodes, and 70 % have fresh data",
        series=_coverage(40, second="100x90"),
        at="60m",
    ),
    Case(
        alert="EquipoiseClockSkew",
        about="the clock of the source is 3 s late",
        series={_SKEW: "-3x90"},
        at="16m",
        fires=_NAMESPACE,
        value="3s",
    ),
    Case(
        alert="EquipoiseClockSkew",
        about="the clocks differ by 1 s, and did by 5 s for a moment",
        series={_SKEW: "1x5 5x2 -1x90"},
        at="60m",
    ),
    *_ledger("EquipoiseLedgerUnreadable", "unreadable", fires_at="16m"),
    *_ledger("EquipoiseLedgerClosed", "closed", fires_at="6m"),
    *_ledger("EquipoiseEvictionsPaused", "paused", fires_at="1441m"),
    Case(
        alert="EquipoisePodDetached",
        about="a pod is detached for ten minutes longer than its replacement may take",
        series={_DETACHED % "true": "0x5 1x90", _DETACHED % "false": "1x5 0x90"},
        at="21m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoisePodDetached",
        about="pods are moved without a gap all the time, and one is late for nine minutes",
        series={_DETACHED % "true": "0x5 1x9 0x90", _DETACHED % "false": "2x90"},
        at="60m",
    ),
    *_rejected("EquipoiseUnusualEvictionRate", "unusualRate"),
    Case(
        alert="EquipoiseCampaignStopped",
        about="a campaign has run for an hour, and has stopped",
        series={_CAMPAIGN % "running": "1x60 0x300", _CAMPAIGN % "stopped": "0x60 1x300"},
        at="5h",
        fires=_NAMESPACE,
        value="1",
    ),
    Case(
        alert="EquipoiseCampaignStopped",
        about="a campaign has ended as planned",
        series={_CAMPAIGN % "running": "1x60 0x300", _CAMPAIGN % "ended": "0x60 1x300", _CAMPAIGN % "stopped": "0x360"},
        at="2h",
    ),
    Case(
        alert="EquipoiseCampaignStopped",
        about="a campaign has stopped more than six hours ago",
        series={_CAMPAIGN % "running": "1x60 0x600", _CAMPAIGN % "stopped": "0x60 1x600"},
        at="8h",
    ),
    *_rejected("EquipoiseReplacementsLate", "lateReplacements"),
    *_rejected("EquipoiseReplacementsFailing", "failingReplacements"),
    Case(
        alert="EquipoiseIntentsRefused",
        about="intents are refused for hours, and none is executed",
        series={
            _OUTCOMES % "rejected_limit": "0+1x500",
            _OUTCOMES % "evicted": "7x500",
            _OUTCOMES % "dry_run": "0x500",
        },
        at="450m",
        fires=_NAMESPACE,
        value="360",
    ),
    Case(
        alert="EquipoiseIntentsRefused",
        about="most intents are refused, and one in six hours is executed",
        series={_OUTCOMES % "rejected_limit": "0+1x500", _OUTCOMES % "evicted": "7x200 8x300"},
        at="450m",
    ),
    Case(
        alert="EquipoiseNoEvaluations",
        about="the evaluations of the leader have stopped",
        series={_EVALUATIONS: "0+1x20 20x70"},
        at="60m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoiseNoEvaluations",
        about="another replica leads now",
        series={_EVALUATIONS: "0+1x20 20x70", _EVALUATIONS.replace("-1", "-2"): "0x20 0+1x70"},
        at="60m",
    ),
    *_problem("EquipoiseAnnotationsRefused", "annotate Node", "annotator", lasts=30),
    *_problem("EquipoiseHintsNotWritten", "hints refused", "annotator", lasts=15),
    *_problem("EquipoiseEmptyNodeNotRemoved", "consolidation", "descheduler", lasts=15),
    *_problem("EquipoiseTaintsRefused", "taints", "annotator", lasts=15),
    *_problem("EquipoiseWatchBroken", "watch pods", "collector", lasts=15),
    Case(
        alert="EquipoiseExtenderErrors",
        about="one of ten requests is refused",
        series={_requests("ok"): "0+90x90", _requests("503"): "0+10x90"},
        at="30m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoiseExtenderErrors",
        about="two of a hundred requests are refused",
        series={_requests("ok"): "0+98x90", _requests("503"): "0+2x90"},
        at="60m",
    ),
    Case(
        alert="EquipoiseExtenderSlow",
        about="one of ten scores takes up to 0.2 s",
        series=_buckets(90, 10),
        at="30m",
        fires=_NAMESPACE,
        value="190ms",
    ),
    Case(
        alert="EquipoiseExtenderSlow",
        about="one of 200 scores takes up to 0.2 s",
        series=_buckets(199, 1),
        at="60m",
    ),
    Case(
        alert="EquipoiseExtenderHandshakesFail",
        about="a client without a valid certificate connects every minute",
        series={_HANDSHAKES % "handshake": "0+1x90"},
        at="30m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoiseExtenderHandshakesFail",
        about="one handshake failed, and connections were idle",
        series={_HANDSHAKES % "handshake": "0x20 1x70", _HANDSHAKES % "timeout": "0+1x90"},
        at="60m",
    ),
    Case(
        alert="EquipoiseScoresNeutral",
        about="no score has fresh data",
        series={_requests("ok"): "0+10x90", _NEUTRAL % "coverage": "0+10x90"},
        at="45m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoiseScoresNeutral",
        about="loads are alike, and few requests are late",
        series={_requests("ok"): "0+10x90", _NEUTRAL % "alike": "0+9x90", _NEUTRAL % "late": "0+1x90"},
        at="60m",
    ),
    Case(
        alert="EquipoiseReclaimerNotEvaluating",
        about="the leader has stopped, and the other replica does not lead",
        series={_evaluated(1): "0+60x20 1200x60", _evaluated(2): "0x80"},
        at="46m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoiseReclaimerNotEvaluating",
        about="no replica is scraped any more",
        series={_evaluated(1): "0+60x20 stale"},
        at="46m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoiseReclaimerNotEvaluating",
        about="another replica leads now, after some minutes without a leader",
        series={_evaluated(1): "0+60x20 0x60", _evaluated(2): "0x25 1560+60x60"},
        at="80m",
    ),
    Case(
        alert="EquipoiseReclaimerNotEvaluating",
        about="there is no reclaimer",
        series={_agent("equipoise_agent_rounds_total", 1): "0+60x90"},
        at="46m",
    ),
    Case(
        alert="EquipoiseReclaimerWritesFail",
        about="a write fails every minute",
        series={_STATUS_WRITES % "failed": "0+1x90", _STATUS_WRITES % "written": "0+5x90"},
        at="41m",
        fires=_NAMESPACE,
    ),
    Case(
        alert="EquipoiseReclaimerWritesFail",
        about="some writes failed, and nodes were deleted",
        series={
            _STATUS_WRITES % "failed": "0x10 9x90",
            _STATUS_WRITES % "written": "0+5x90",
            _STATUS_WRITES % "gone": "0+1x90",
        },
        at="41m",
    ),
    Case(
        alert="EquipoiseReclaimerWritesWait",
        about="never fewer than 3 nodes wait",
        series={_waiting(1): "3 9x90", _waiting(2): "0x90"},
        at="61m",
        fires=_NAMESPACE,
        value="9",
    ),
    Case(
        alert="EquipoiseReclaimerWritesWait",
        about="many nodes wait at times, and then none",
        series={_waiting(1): "900x20 0 900x20 0 900x60"},
        at="61m",
    ),
    Case(
        alert="EquipoiseReclaimedAmountsContested",
        about="another program writes 2 nodes",
        series={_contested(1): "0x10 2x80", _contested(2): "0x90"},
        at="20m",
        fires=_NAMESPACE,
        value="2",
    ),
    Case(
        alert="EquipoiseReclaimedAmountsContested",
        about="nobody else writes",
        series={_contested(1): "0x90", _contested(2): "0x90"},
        at="20m",
    ),
    Case(
        alert="EquipoiseReclaimedAmountsDegraded",
        about="one fifth of the nodes has old samples",
        series={_OFFERING % "degraded": "20x90", _OFFERING % "current": "80x90", _OFFERING % "disabled": "0x90"},
        at="36m",
        fires=_NAMESPACE,
        value="20%",
    ),
    Case(
        alert="EquipoiseReclaimedAmountsDegraded",
        about="some nodes have old samples, and most are in pools that offer nothing",
        series={_OFFERING % "degraded": "5x90", _OFFERING % "current": "35x90", _OFFERING % "disabled": "60x90"},
        at="36m",
    ),
    Case(
        alert="EquipoiseReclaimedAmountsDegraded",
        about="the samples of all nodes were old for a while",
        series={_OFFERING % "degraded": "0x5 100x20 0x60", _OFFERING % "current": "100x5 0x20 100x60"},
        at="36m",
    ),
    Case(
        alert="EquipoiseAgentMissing",
        about="one of three nodes has no agent",
        series={
            _OFFERING % "current": "2x90",
            _OFFERING % "degraded": "1x90",
            _REQUESTED: "4x90",
            _agent("equipoise_agent_rounds_total", 1): "0+60x90",
            _agent("equipoise_agent_rounds_total", 2): "0+60x90",
        },
        at="21m",
        fires=_NAMESPACE,
        value="1",
    ),
    Case(
        alert="EquipoiseAgentMissing",
        about="the node without an agent is in a pool that offers nothing",
        series={
            _OFFERING % "current": "1x90",
            _OFFERING % "disabled": "1x90",
            _REQUESTED: "4x90",
            _agent("equipoise_agent_rounds_total", 1): "0+60x90",
        },
        at="21m",
    ),
    Case(
        alert="EquipoiseAgentMissing",
        about="no pod of the bands is bound: the agent is being introduced",
        series={
            _OFFERING % "current": "2x90",
            _REQUESTED: "0x90",
            _agent("equipoise_agent_rounds_total", 1): "0+60x90",
        },
        at="21m",
    ),
    Case(
        alert="EquipoiseAgentMissing",
        about="there are no agents",
        series={_OFFERING % "current": "2x90", _REQUESTED: "4x90"},
        at="21m",
    ),
    Case(
        alert="EquipoiseAgentRoundsStopped",
        about="the rounds of one of two agents have stopped",
        series={
            _agent("equipoise_agent_rounds_total", 1): "0+60x10 600x90",
            _agent("equipoise_agent_rounds_total", 2): "0+60x90",
        },
        at="31m",
        fires=_NAMESPACE_OF_AGENTS,
        value="1",
    ),
    Case(
        alert="EquipoiseAgentRoundsStopped",
        about="an agent is restarted, and another one is deleted",
        series={
            _agent("equipoise_agent_rounds_total", 1): "0+60x10 0+60x90",
            _agent("equipoise_agent_rounds_total", 2): "0+60x10 stale",
        },
        at="31m",
    ),
    Case(
        alert="EquipoiseAgentCannotLimit",
        about="the cgroups of two nodes are read-only",
        series={
            _agent("equipoise_problem", 1, key="cgroups"): "1x90",
            _agent("equipoise_problem", 2, key="cgroups"): "1x90",
        },
        at="21m",
        fires={**_NAMESPACE_OF_AGENTS, "key": "cgroups"},
        value="2",
    ),
    Case(
        alert="EquipoiseAgentCannotLimit",
        about="a value was refused for some minutes, and the API server is not reached",
        series={
            _agent("equipoise_problem", 1, key="cgroups"): "1x5 stale",
            _agent("equipoise_problem", 1, key="kubernetes"): "1x90",
        },
        at="21m",
    ),
    Case(
        alert="EquipoiseBatchWorkSuppressed",
        about="on one of two nodes batch pods are limited for 40 s of each minute",
        series={
            _agent("equipoise_agent_suppressed_seconds_total", 1, reason="pressure"): "0+30x300",
            _agent("equipoise_agent_suppressed_seconds_total", 1, reason="threshold"): "0+10x300",
            _agent("equipoise_agent_suppressed_seconds_total", 2, reason="pressure"): "0+2x300",
        },
        at="200m",
        fires=_NAMESPACE_OF_AGENTS,
        value="1",
    ),
    Case(
        alert="EquipoiseBatchWorkSuppressed",
        about="a peak of an hour",
        series={_agent("equipoise_agent_suppressed_seconds_total", 1, reason="pressure"): "0x60 0+60x60 3600x200"},
        at="200m",
    ),
    Case(
        alert="EquipoiseBatchPodsEvicted",
        about="a pod is evicted",
        series={_agent("equipoise_agent_evictions_total", 1, reason="memory", result="evicted"): "0x10 1x90"},
        at="20m",
        fires={**_NAMESPACE_OF_AGENTS, "reason": "memory"},
        value="1",
    ),
    Case(
        alert="EquipoiseBatchPodsEvicted",
        about="evictions are dry runs, and one pod was evicted two hours ago",
        series={
            _agent("equipoise_agent_evictions_total", 1, reason="memory", result="evicted"): "0x3 1x200",
            _agent("equipoise_agent_evictions_total", 2, reason="memory", result="dry_run"): "0+1x200",
        },
        at="120m",
    ),
)
