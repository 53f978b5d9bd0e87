"""The dashboards for Grafana.

Every query is of one installation (the variable `namespace`), sums over its replicas, and works whatever Prometheus
adds to the labels.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from monitoring.alerts import SERVICE_METRICS

Kind = Literal["timeseries", "stat", "heatmap"]

_REPLICA = "namespace, pod, instance"

_SCORER, _DESCHEDULER = SERVICE_METRICS["scorer"], SERVICE_METRICS["descheduler"]


class Query(msgspec.Struct, frozen=True):
    expression: str
    legend: str = ""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    text: str
    """For people: what it shows, and what is usual."""

    queries: Sequence[Query]
    unit: str = "short"
    """Of Grafana: percentunit, s, bytes, reqps."""

    kind: Kind = "timeseries"
    width: int = 12
    height: int = 8
    stacked: bool = False
    empty_when: str = ""
    """When the queries return nothing, although all is well."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    panels: Sequence[Panel]


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    title: str
    text: str
    rows: Sequence[Row]

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row.panels]


def _of(metric: str, **labels: str) -> str:
    matchers = ['namespace=~"$namespace"', *(f'{label}="{value}"' for label, value in labels.items())]
    return f"{metric}{{{', '.join(matchers)}}}"


def _rate(metric: str, **labels: str) -> str:
    return f"rate({_of(metric, **labels)}[$__rate_interval])"


def _increase(metric: str, time: str) -> str:
    return f"increase({_of(metric)}[{time}])"


def _quantile(share: float, metric: str, *, by: str = "", **labels: str) -> str:
    kept = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({kept}) ({_rate(f'{metric}_bucket', **labels)}))"


def _ours(expression: str, metric: str = "equipoise_ready") -> str:
    """Series that every program has, of ours: of the processes with this metric."""
    return f"{expression} and on ({_REPLICA}) {_of(metric)}"


def _cluster(kind: str, resource: str, statistic: str) -> str:
    """Every scorer computes the same."""
    return f"avg({_of(f'equipoise_scorer_cluster_{kind}_ratio', resource=resource, statistic=statistic)})"


def _spread(resource: str) -> str:
    return f"{_cluster('load', resource, 'max')} - {_cluster('load', resource, 'min')}"


def _by(function: str, labels: str, expression: str) -> Query:
    """One series for each value of the labels, named by it."""
    return Query(f"{function} by ({labels}) ({expression})", " ".join(f"{{{{{each}}}}}" for each in labels.split(", ")))


def _events(labels: str, expression: str, metric: str) -> Query:
    """Sums of series that begin with the first event. 0 until then, if a service with this metric is scraped."""
    query = _by("sum", labels, expression)
    first, *_ = labels.split(", ")
    none = f'label_replace(0 * max({_of(metric)}), "{first}", "none", "", "")'
    return Query(f"{query.expression} or on () {none}", query.legend)


def _stat(title: str, text: str, expression: str, *, unit: str = "percentunit") -> Panel:
    """One number."""
    return Panel(title=title, text=text, kind="stat", unit=unit, width=4, height=4, queries=[Query(expression)])


def _beside_requests(resource: str, title: str) -> Panel:
    return Panel(
        title=f"{title}: real load beside requests",
        text="Mean of the nodes, and the most and the least loaded one. The distance between requests and load is what "
        "kube-scheduler does not see.",
        unit="percentunit",
        queries=[
            Query(_cluster("requests", resource, "mean"), "requested, mean"),
            Query(_cluster("load", resource, "mean"), "used, mean"),
            Query(_cluster("load", resource, "max"), "used, most loaded node"),
            Query(_cluster("load", resource, "min"), "used, least loaded node"),
        ],
    )


def _heat(resource: str, title: str) -> Panel:
    return Panel(
        title=f"{title}: nodes by load",
        text="Number of nodes in each tenth of load. A level cluster is one narrow band.",
        kind="heatmap",
        unit="percentunit",
        queries=[_by("max", "le", _of("equipoise_scorer_cluster_nodes_by_load", resource=resource))],
    )


FLEET = Dashboard(
    uid="equipoise-fleet",
    title="Equipoise / Fleet",
    text="How level the cluster is: real load beside requests, the spread over time, and the heat of the nodes.",
    rows=[
        Row(
            title="Now",
            panels=[
                _stat(
                    "Spread of CPU", "Load of the most loaded node minus that of the least loaded one.", _spread("cpu")
                ),
                _stat(
                    "Spread of memory",
                    "Load of the most loaded node minus that of the least loaded one.",
                    _spread("memory"),
                ),
                _stat("CPU used", "Mean of the nodes.", _cluster("load", "cpu", "mean")),
                _stat("CPU requested", "Mean of the nodes.", _cluster("requests", "cpu", "mean")),
                _stat(
                    "Hot nodes",
                    "Nodes above a high threshold at the last evaluation, of the strategy with the most.",
                    f"max({_of('equipoise_descheduler_nodes', state='hot')})",
                    unit="short",
                ),
                _stat(
                    "Nodes with fresh data",
                    "Below 80 % nothing is evicted, below 70 % scores are neutral.",
                    f"sum({_of('equipoise_collector_nodes_fresh')}) / sum({_of('equipoise_collector_nodes_expected')})",
                ),
            ],
        ),
        Row(
            title="Real load beside requests",
            panels=[_beside_requests("cpu", "CPU"), _beside_requests("memory", "Memory")],
        ),
        Row(
            title="Spread over time",
            panels=[
                Panel(
                    title="Spread",
                    text="Load of the most loaded node minus that of the least loaded one. Equipoise makes it smaller.",
                    unit="percentunit",
                    queries=[Query(_spread("cpu"), "CPU"), Query(_spread("memory"), "memory")],
                ),
                Panel(
                    title="Standard deviation",
                    text="Of the load of all nodes. One node alone hardly changes it, unlike the spread.",
                    unit="percentunit",
                    queries=[
                        Query(_cluster("load", "cpu", "deviation"), "CPU"),
                        Query(_cluster("load", "memory", "deviation"), "memory"),
                    ],
                ),
            ],
        ),
        Row(title="Heat of the nodes", panels=[_heat("cpu", "CPU"), _heat("memory", "Memory")]),
        Row(
            title="Classification and data",
            panels=[
                Panel(
                    title="Nodes by state",
                    text="As the strategies of the descheduler classify them.",
                    stacked=True,
                    queries=[
                        Query(
                            f"max by (strategy, state) ({_of('equipoise_descheduler_nodes')})",
                            "{{strategy}}: {{state}}",
                        )
                    ],
                ),
                Panel(
                    title="Nodes of unknown load, by reason",
                    text="docs/metrics.md has an action for each reason.",
                    stacked=True,
                    queries=[_by("sum", "reason", _of("equipoise_collector_nodes_unknown"))],
                ),
                Panel(
                    title="Highest pressure",
                    text="Share of time in which processes wait on the node where they wait most; empty if unknown.",
                    unit="percentunit",
                    empty_when="the kernel or the source has no pressure",
                    queries=[_by("max", "resource", _of("equipoise_collector_highest_pressure"))],
                ),
            ],
        ),
    ],
)

SERVICES = Dashboard(
    uid="equipoise-services",
    title="Equipoise / Services",
    text="Whether the services work, what they cost, and what they report.",
    rows=[
        Row(
            title="State",
            panels=[
                Panel(
                    title="Ready",
                    text="1 while /readyz of the replica returns 200.",
                    queries=[Query(_of("equipoise_ready"), "{{pod}} {{instance}}")],
                ),
                Panel(
                    title="Leading",
                    text="1 while a replica leads: one descheduler, and a collector for each shard.",
                    queries=[Query(_of("equipoise_leader"), "{{pod}} {{instance}}")],
                ),
                Panel(
                    title="Problems",
                    text="What /readyz reports, by key. docs/runbooks.md has an action for each alert.",
                    stacked=True,
                    queries=[_events("key", _of("equipoise_problem"), "equipoise_ready")],
                ),
                Panel(
                    title="Problems of the bus",
                    text="Of connections, permissions and streams, by kind.",
                    stacked=True,
                    queries=[_by("sum", "kind", _of("equipoise_bus_problems"))],
                ),
                Panel(
                    title="Versions",
                    text="Replicas by version: two during an upgrade.",
                    stacked=True,
                    queries=[_by("count", "version", _of("equipoise_build_info"))],
                ),
                Panel(
                    title="Errors of the bus",
                    text="By kind. Errors of connections are usual while NATS restarts.",
                    unit="ops",
                    queries=[_by("sum", "kind", _rate("equipoise_bus_errors_total"))],
                ),
            ],
        ),
        Row(
            title="Cost",
            panels=[
                Panel(
                    title="CPU",
                    text="Cores. docs/install.md has what was measured for 100, 1,000 and 5,000 nodes.",
                    queries=[Query(_ours(_rate("process_cpu_seconds_total")), "{{pod}} {{instance}}")],
                ),
                Panel(
                    title="Memory",
                    text="Resident memory.",
                    unit="bytes",
                    queries=[Query(_ours(_of("process_resident_memory_bytes")), "{{pod}} {{instance}}")],
                ),
                Panel(
                    title="Lag of the event loop",
                    text="99th percentile of how late a task is resumed. Above 0.1 s, the CPU is too busy.",
                    unit="s",
                    queries=[
                        Query(
                            _quantile(0.99, "equipoise_event_loop_lag_seconds", by="pod, instance"),
                            "{{pod}} {{instance}}",
                        )
                    ],
                ),
                Panel(
                    title="Open files",
                    text="Connections, mostly.",
                    queries=[Query(_ours(_of("process_open_fds")), "{{pod}} {{instance}}")],
                ),
            ],
        ),
        Row(
            title="Collector and annotator",
            panels=[
                Panel(
                    title="Rounds of measurement",
                    text="By window and result.",
                    unit="ops",
                    queries=[_by("sum", "window, result", _rate("equipoise_collector_rounds_total"))],
                ),
                Panel(
                    title="Duration of a round",
                    text="95th percentile. It should be shorter than the refresh period of the window.",
                    unit="s",
                    queries=[
                        Query(_quantile(0.95, "equipoise_collector_round_duration_seconds", by="window"), "{{window}}")
                    ],
                ),
                Panel(
                    title="Writes of annotations and placement hints",
                    text="By kind of object and result.",
                    unit="ops",
                    queries=[_by("sum", "kind, result", _rate("equipoise_annotator_writes_total"))],
                ),
                Panel(
                    title="Objects that wait",
                    text="To be read or written by the annotators.",
                    queries=[
                        Query(f"sum({_of('equipoise_annotator_objects_unread')})", "to be read"),
                        Query(f"sum({_of('equipoise_annotator_writes_pending')})", "to be written"),
                    ],
                ),
                Panel(
                    title="Clock of the metric source",
                    text="Its difference to the collector. Above 10 s every load is unknown.",
                    unit="s",
                    queries=[Query(_of("equipoise_collector_source_skew_seconds"), "{{pod}} {{instance}}")],
                ),
                Panel(
                    title="Time until certificates expire",
                    text="Of NATS, as of the last connection, of the extender, and of the webhook of hints.",
                    unit="s",
                    empty_when="NATS and the extender have no TLS",
                    queries=[
                        Query(f"max({_of('equipoise_bus_certificate_expiry_timestamp_seconds')} > 0) - time()", "NATS"),
                        Query(
                            f"min({_of('equipoise_scorer_certificate_expiry_timestamp_seconds')} > 0) - time()",
                            "extender",
                        ),
                        Query(
                            f"min({_of('equipoise_hints_webhook_certificate_expiry_timestamp_seconds')} > 0) - time()",
                            "webhook of hints",
                        ),
                    ],
                ),
            ],
        ),
    ],
)

EVICTIONS = Dashboard(
    uid="equipoise-evictions",
    title="Equipoise / Evictions",
    text="What was proposed, what became of it and why, and how much of each limit is in use.",
    rows=[
        Row(
            title="Outcomes",
            panels=[
                Panel(
                    title="Proposed per hour",
                    text="Intents of the leading descheduler, by strategy.",
                    stacked=True,
                    queries=[_events("strategy", _increase("equipoise_descheduler_intents_total", "1h"), _DESCHEDULER)],
                ),
                Panel(
                    title="Outcomes per hour",
                    text="`equipoise explain eviction NAMESPACE/POD` has the reason of each.",
                    stacked=True,
                    queries=[_by("sum", "outcome", _increase("equipoise_binder_outcomes_total", "1h"))],
                ),
                Panel(
                    title="Rejected by a limit, per hour",
                    text="Usual, but for unusualRate, lateReplacements and failingReplacements.",
                    stacked=True,
                    queries=[_by("sum", "limit", _increase("equipoise_binder_limit_rejections_total", "1h"))],
                ),
                Panel(
                    title="Ledger",
                    text="1 for its state. Only in the state `allowed` pods are evicted.",
                    queries=[_by("max", "state", _of("equipoise_binder_ledger"))],
                ),
                Panel(
                    title="Detached pods",
                    text="By moves without a gap, until their replacements are ready. late: not ready in time.",
                    queries=[_by("max", "late", _of("equipoise_binder_detached_pods"))],
                ),
            ],
        ),
        Row(
            title="Limits",
            panels=[
                Panel(
                    title="Limits in use",
                    text="What each limit counts now, for the workload, namespace or node with the highest count, or "
                    "for the cluster. `equipoise status` has the maximum of each.",
                    queries=[_by("max", "limit", _of("equipoise_binder_limit_used"))],
                ),
                Panel(
                    title="Time from an intent to its outcome",
                    text="It waits for limits.rate and for the API server.",
                    unit="s",
                    queries=[
                        Query(_quantile(share, "equipoise_binder_intent_duration_seconds"), f"{share:.0%}")
                        for share in (0.5, 0.99)
                    ],
                ),
            ],
        ),
        Row(
            title="Effect",
            panels=[
                Panel(
                    title="Load after evictions, per day",
                    text="Nodes whose load fell as expected one window after evictions (reduced), or did not.",
                    stacked=True,
                    queries=[
                        _events(
                            "result",
                            _increase("equipoise_descheduler_load_reductions_total", "1d"),
                            _DESCHEDULER,
                        )
                    ],
                ),
                Panel(
                    title="Where replacements run",
                    text="Replacements of evicted pods, in a day: on the target of the move, elsewhere, or returned to "
                    "the node of the evicted pod.",
                    stacked=True,
                    queries=[
                        _events(
                            "result",
                            _increase("equipoise_descheduler_replacements_total", "1d"),
                            _DESCHEDULER,
                        )
                    ],
                ),
                Panel(
                    title="Returns and cooldowns",
                    text="Replacements that returned to the node of the evicted pod, in a day; nodes in cooldown, as "
                    "evictions did not reduce their load; moves of dry runs.",
                    queries=[
                        Query(
                            f"sum({_increase('equipoise_descheduler_same_node_returns_total', '1d')})",
                            "returns per day",
                        ),
                        Query(f"max({_of('equipoise_descheduler_nodes_in_cooldown')})", "nodes in cooldown"),
                        Query(f"max({_of('equipoise_descheduler_dry_run_moves')})", "dry-run moves"),
                    ],
                ),
                Panel(
                    title="Evaluations per hour",
                    text="Of the leading descheduler: 30 by default.",
                    queries=[
                        Query(
                            f"sum({_increase('equipoise_descheduler_evaluation_duration_seconds_count', '1h')})",
                            "evaluations",
                        )
                    ],
                ),
                Panel(
                    title="Duration of an evaluation",
                    text="95th percentile.",
                    unit="s",
                    queries=[Query(_quantile(0.95, "equipoise_descheduler_evaluation_duration_seconds"), "evaluation")],
                ),
            ],
        ),
    ],
)

SCORING = Dashboard(
    uid="equipoise-scoring",
    title="Equipoise / Scoring",
    text="What scores cost kube-scheduler, and whether it uses them.",
    rows=[
        Row(
            title="Cost",
            panels=[
                Panel(
                    title="Requests of kube-scheduler",
                    text="By verb and result. None although pods are placed: it does not reach the scorer.",
                    unit="reqps",
                    stacked=True,
                    queries=[_events("verb, result", _rate("equipoise_scorer_requests_total"), _SCORER)],
                ),
                Panel(
                    title="Time of a score",
                    text="From the last byte of the request to the response. kube-scheduler waits for at most 0.2 s.",
                    unit="s",
                    queries=[
                        Query(
                            _quantile(share, "equipoise_scorer_request_duration_seconds", verb="prioritize"),
                            f"{share:.0%}",
                        )
                        for share in (0.5, 0.9, 0.99)
                    ],
                ),
                Panel(
                    title="CPU time per request",
                    text="Of the scorers, with everything that they do besides.",
                    unit="s",
                    queries=[
                        Query(
                            f"sum({_ours(_rate('process_cpu_seconds_total'), 'equipoise_scorer_reservations')}) / "
                            f"sum({_rate('equipoise_scorer_requests_total')})",
                            "per request",
                        )
                    ],
                ),
                Panel(
                    title="Connections closed",
                    text="limit: too many; timeout: no request; handshake: TLS.",
                    unit="ops",
                    queries=[_events("reason", _rate("equipoise_scorer_connections_dropped_total"), _SCORER)],
                ),
            ],
        ),
        Row(
            title="Effect",
            panels=[
                Panel(
                    title="Scores followed",
                    text="Share of the last 1,000 placed pods on a best node of their response, and what chance would "
                    "have reached. Close together: another plugin outweighs the scores.",
                    unit="percentunit",
                    queries=[
                        Query(f"max({_of('equipoise_scores_followed_ratio')})", "followed"),
                        Query(f"max({_of('equipoise_scores_followed_by_chance_ratio')})", "by chance"),
                    ],
                ),
                Panel(
                    title="Neutral scores",
                    text="alike: the nodes are level. coverage: too few nodes have fresh data. late: the request was.",
                    unit="reqps",
                    stacked=True,
                    queries=[_events("reason", _rate("equipoise_scorer_neutral_total"), _SCORER)],
                ),
                Panel(
                    title="Nodes",
                    text="By whether the scorer knows their load.",
                    stacked=True,
                    queries=[_by("max", "load", _of("equipoise_scorer_nodes"))],
                ),
                Panel(
                    title="Reservations",
                    text="Scored pods that are not placed yet, by replica.",
                    queries=[Query(_of("equipoise_scorer_reservations"), "{{pod}} {{instance}}")],
                ),
            ],
        ),
        Row(
            title="Placement hints",
            panels=[
                Panel(
                    title="Placed pods by their hint, per hour",
                    text="preferred, avoided: the hint prefers or avoids the node of the pod. none: created without a "
                    "hint. Few preferred ones: the requirements of the pods exclude the preferred nodes, or other "
                    "preferences outweigh the hints.",
                    stacked=True,
                    queries=[_by("max", "hint", _increase("equipoise_scorer_placed_pods_total", "1h"))],
                ),
                Panel(
                    title="Hints",
                    text="Workloads with a hint, 0 if hints are off or the data is insufficient; workloads for whose "
                    "hints the object of their namespace has no space; namespaces whose hints wait to be written.",
                    queries=[
                        Query(f"max({_of('equipoise_scorer_hinted_workloads')})", "workloads with a hint"),
                        Query(f"sum({_of('equipoise_annotator_hints_left_out')})", "workloads left out"),
                        Query(f"sum({_of('equipoise_annotator_hints_pending')})", "namespaces that wait"),
                    ],
                ),
                Panel(
                    title="Time to compute all hints",
                    text="95th percentile, of every `scorer.hints.interval`. Requests are served meanwhile.",
                    unit="s",
                    empty_when="hints are off",
                    queries=[Query(_quantile(0.95, "equipoise_scorer_hint_update_duration_seconds"), "update")],
                ),
            ],
        ),
        Row(
            title="Advice and shadow policy",
            panels=[
                Panel(
                    title="Advice",
                    text="Placed pods by what happened to their advice, for the weekly report.",
                    unit="ops",
                    stacked=True,
                    queries=[_events("result", _rate("equipoise_scorer_placement_advice_total"), _SCORER)],
                ),
                Panel(
                    title="Disagreement of the shadow policy",
                    text="Share of the requests without a best node in common.",
                    unit="percentunit",
                    empty_when="there is no shadow policy",
                    queries=[
                        Query(
                            f"sum({_rate('equipoise_scorer_shadow_disagreements_total')}) / "
                            f"(sum({_rate('equipoise_scorer_shadow_requests_total')}) > 0)",
                            "disagreement",
                        )
                    ],
                ),
            ],
        ),
    ],
)

_WITHOUT = "the cluster has no reclaimer or no agent"


def _band(band: str) -> Sequence[Panel]:
    """CPU and memory."""
    return [
        Panel(
            title=f"{title} of the band {band}",
            text="Sum of all nodes. offered: in the status of the nodes, or in observation what would be. reclaimed: "
            "what the forecast leaves. requested: by bound pods; never above offered.",
            unit=unit,
            empty_when=_WITHOUT,
            queries=[
                Query(f"sum({_of('equipoise_reclaimer_amounts', band=band, resource=resource, kind=kind)})", kind)
                for kind in ("reclaimed", "offered", "requested")
            ],
        )
        for title, resource, unit in (("CPU", "cpu", "short"), ("Memory", "memory", "bytes"))
    ]


def _over_nodes(metric: str) -> Sequence[Query]:
    nodes = f"sum by ({_REPLICA}) ({metric})"
    return [
        Query(f"quantile(0.5, {nodes})", "half of the nodes"),
        Query(f"quantile(0.9, {nodes})", "90% of the nodes"),
        Query(f"max({nodes})", "highest"),
    ]


COLOCATION = Dashboard(
    uid="equipoise-colocation",
    title="Equipoise: Co-location",
    text="What nodes offer to batch pods, what these use, and what it costs the others.",
    rows=[
        Row(title="Batch: for the next hours (`reclaimer.forecast.batchHours`)", panels=_band("batch")),
        Row(title="Mid: for the next 24 hours", panels=_band("mid")),
        Row(
            title="Use",
            panels=[
                Panel(
                    title="CPU of batch pods",
                    text="Sum of all nodes with an agent. requested: batch-cpu and mid-cpu of the pods of the node. "
                    "used: by all best-effort pods, which include those of the bands. Idle now: for pods of the band "
                    "free.",
                    empty_when=_WITHOUT,
                    queries=[
                        Query(f"sum({_of('equipoise_agent_cpu_requested_cores')})", "requested"),
                        Query(f"sum({_of('equipoise_agent_cpu_usage_cores', group='best_effort')})", "used"),
                        Query(
                            f"sum({_of('equipoise_reclaimer_amounts', band='free', resource='cpu', kind='reclaimed')})",
                            "idle now",
                        ),
                    ],
                ),
                Panel(
                    title="Pods by band",
                    text="Of the nodes with an agent.",
                    stacked=True,
                    empty_when=_WITHOUT,
                    queries=[_by("sum", "band", _of("equipoise_agent_pods"))],
                ),
                Panel(
                    title="Nodes by state of their offer",
                    text="degraded: old samples or an invalid annotation, so that less is offered. disabled: by the "
                    "strategy of their pool.",
                    stacked=True,
                    empty_when=_WITHOUT,
                    queries=[_by("sum", "state", _of("equipoise_reclaimer_nodes"))],
                ),
                Panel(
                    title="Memory in use",
                    text="Share of a node. Above `agent.memoryEviction` batch pods are evicted.",
                    unit="percentunit",
                    empty_when=_WITHOUT,
                    queries=_over_nodes(_of("equipoise_agent_memory_used_ratio")),
                ),
            ],
        ),
        Row(
            title="Effect on other pods",
            panels=[
                Panel(
                    title="Pressure of latency-sensitive pods",
                    text="Share of the time in which the pod that waits most waited for CPU, by node. Above "
                    "`agent.suppression.pressureThreshold` batch pods are limited.",
                    unit="percentunit",
                    empty_when=_WITHOUT,
                    queries=_over_nodes(_of("equipoise_agent_pressure_ratio")),
                ),
                Panel(
                    title="Time in which batch pods are limited",
                    text="Share of the time, by node, and mean of all nodes by reason. Above one half for hours, batch "
                    "pods get less than they request: offer less.",
                    unit="percentunit",
                    empty_when=_WITHOUT,
                    queries=[
                        *_over_nodes(_rate("equipoise_agent_suppressed_seconds_total")),
                        Query(
                            f"sum by (reason) ({_rate('equipoise_agent_suppressed_seconds_total')})"
                            f" / on () group_left () count({_of('equipoise_agent_rounds_total')})",
                            "mean: {{reason}}",
                        ),
                    ],
                ),
                Panel(
                    title="Evictions of batch pods, per hour",
                    text="By reason and result. dry_run: `agent.evict` is false. blocked: by a PodDisruptionBudget.",
                    stacked=True,
                    empty_when=_WITHOUT,
                    queries=[
                        Query(
                            f"sum by (reason, result) ({_increase('equipoise_agent_evictions_total', '1h')})",
                            "{{reason}}: {{result}}",
                        )
                    ],
                ),
                Panel(
                    title="Problems of agents",
                    text="Nodes by problem of the agent: /readyz states the reason.",
                    stacked=True,
                    empty_when="no agent has a problem",
                    queries=[
                        Query(
                            f"count by (key) ({_ours(_of('equipoise_problem'), 'equipoise_agent_rounds_total')})",
                            "{{key}}",
                        )
                    ],
                ),
            ],
        ),
        Row(
            title="Writes",
            panels=[
                Panel(
                    title="Writes to the status of nodes",
                    text="By result. At most `reclaimer.writesPerSecond`. None in observation.",
                    unit="ops",
                    stacked=True,
                    empty_when=_WITHOUT,
                    queries=[_by("sum", "result", _rate("equipoise_reclaimer_writes_total"))],
                ),
                Panel(
                    title="Nodes that wait for a write",
                    text="Amounts that shrink are written first. It should reach 0 between two evaluations.",
                    empty_when=_WITHOUT,
                    queries=[Query(f"max({_of('equipoise_reclaimer_writes_pending')})", "nodes")],
                ),
                Panel(
                    title="Duration of an evaluation",
                    text="99th percentile, of all nodes.",
                    unit="s",
                    empty_when=_WITHOUT,
                    queries=[Query(_quantile(0.99, "equipoise_reclaimer_evaluation_duration_seconds"), "evaluation")],
                ),
                Panel(
                    title="Errors",
                    text="Per second. values: of cgroups that the kernel refuses or ignores. reset: by another "
                    "program. messages: that the reclaimer could not publish.",
                    unit="ops",
                    empty_when=_WITHOUT,
                    queries=[
                        *(
                            Query(f"sum({_rate('equipoise_agent_writes_total', result=result)})", f"values {result}")
                            for result in ("refused", "ignored")
                        ),
                        Query(f"sum({_rate('equipoise_agent_values_reset_total')})", "values reset"),
                        Query(f"sum({_rate('equipoise_reclaimer_messages_dropped_total')})", "messages"),
                    ],
                ),
            ],
        ),
    ],
)

DASHBOARDS: Sequence[Dashboard] = (FLEET, SERVICES, EVICTIONS, SCORING, COLOCATION)
