"""Metrics, alerting rules and dashboards."""

from charts.generator.schemas import ANY_OBJECT, BOOLEAN, DURATION, TEXT, TEXTS, Group, Value, list_of


def service_monitor_values() -> Group:
    return Group(
        {
            "enabled": Value(False, BOOLEAN, "Create a ServiceMonitor, and a Service for it."),
            "labels": Value({}, TEXTS, "Labels by which your Prometheus selects it, for example `release`."),
            "interval": Value("30s", DURATION, "Time between two scrapes."),
            "scrapeTimeout": Value("10s", DURATION, "Timeout of a scrape."),
            "relabelings": Value([], list_of(ANY_OBJECT), "More relabelings of targets."),
            "metricRelabelings": Value([], list_of(ANY_OBJECT), "Relabelings of samples."),
        },
        "Metrics of the services, for the Prometheus operator.",
    )


def prometheus_rule_values() -> Group:
    return Group(
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
    )


def dashboards_values() -> Group:
    return Group(
        {
            "enabled": Value(False, BOOLEAN, "Create a ConfigMap for each dashboard in `files/dashboards`."),
            "labels": Value({"grafana_dashboard": "1"}, TEXTS, "Labels by which Grafana's sidecar finds them."),
            "annotations": Value(
                {"grafana_folder": "Equipoise"}, TEXTS, "Annotations, for example the folder in Grafana."
            ),
        },
        "Grafana dashboards.",
    )
