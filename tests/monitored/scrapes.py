"""What services export, scraped at simulated times, and which alerts Prometheus' own engine fires on it."""

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from monitored.promtool import run_promtool
from monitored.queries import selectors
from monitoring.__main__ import ROOT
from monitoring.alerts import ALERTS
from prometheus_client import CollectorRegistry

OWN = "equipoise-system"
AGENTS = "equipoise-agent"
"""The namespace of the agents."""

RULES = ROOT / "k8s" / "metrics" / "alerting-rules.yaml"
METRICS = {selector.metric for alert in ALERTS for selector in selectors(alert.expression)}


class Scrapes:
    """Scrapes one minute apart. For Prometheus the first one is at time 0."""

    def __init__(self, start: float, metrics: Container[str] = METRICS) -> None:
        """`start`: Unix seconds of the first scrape. `metrics`: those that are kept."""
        self._start = start
        self._metrics = metrics
        self._scrapes: list[Mapping[str, str]] = []

    def take(self, registries: Mapping[str, CollectorRegistry], *, times: int = 1) -> None:
        """By service. `times`: the same state, for some minutes."""
        self._scrapes += [dict(self._scrape(registries))] * times

    def _scrape(self, registries: Mapping[str, CollectorRegistry]) -> Iterator[tuple[str, str]]:
        for service, registry in registries.items():
            place = {
                "namespace": AGENTS if service == "agent" else OWN,
                "pod": f"{service}-0",
                "instance": f"10.0.0.1:{len(service)}",
            }
            for family in registry.collect():
                for sample in family.samples:
                    if sample.name in self._metrics:
                        labels = ",".join(f'{name}="{value}"' for name, value in (place | sample.labels).items())
                        is_time = sample.name.endswith("_timestamp_seconds") and sample.value
                        yield f"{sample.name}{{{labels}}}", f"{sample.value - (self._start if is_time else 0):.6f}"

    def _series(self) -> list[dict[str, str]]:
        """As promtool reads them. A series that is no longer exported is stale, as after a scrape without it."""
        names = sorted({name for scrape in self._scrapes for name in scrape})
        return [{"series": name, "values": " ".join(self._values(name))} for name in names]

    def _values(self, name: str) -> Iterator[str]:
        before = False
        for scrape in self._scrapes:
            value = scrape.get(name)
            yield value if value is not None else "stale" if before else "_"
            before = value is not None

    def firing(self, folder: Path, *, until: int | None = None) -> set[str]:
        """The alerts that fired up to this minute, or up to the last scrape."""
        end = len(self._scrapes) - 1 if until is None else until
        expression = f'count by (alertname) (count_over_time(ALERTS{{alertstate="firing"}}[{end + 1}m]))'
        return set(re.findall(r'alertname="(\w+)"', self._results(folder, [expression], end)[expression]))

    def values(self, folder: Path, expressions: Sequence[str]) -> Mapping[str, list[float]]:
        """Of each expression, the value of each series at the last scrape."""
        results = self._results(folder, expressions, max(0, len(self._scrapes) - 1))
        return {
            expression: [float(value) for value in re.findall(r"\} (\S+?)(?:,|$)", result)]
            for expression, result in results.items()
        }

    def _results(self, folder: Path, expressions: Sequence[str], end: int) -> Mapping[str, str]:
        """What promtool got for each expression, instead of nothing."""
        document: dict[str, Any] = {
            "rule_files": [str(RULES)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": self._series(),
                    "promql_expr_test": [
                        {"expr": expression, "eval_time": f"{end}m", "exp_samples": []} for expression in expressions
                    ],
                }
            ],
        }
        file = folder / "run.yaml"
        file.write_text(yaml.safe_dump(document, width=1_000_000))
        result = run_promtool("test", "rules", file)
        assert result.returncode == 0 or "got:" in result.stderr, result.stderr
        found = re.findall(r'expr: (".*"), time: .*\n +exp: nil\n +got: (.*)', result.stderr)
        return dict.fromkeys(expressions, "") | {json.loads(expression): got for expression, got in found}
