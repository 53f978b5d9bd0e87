"""The chart refuses what the services refuse: templates/_rules.tpl and _conflicts.tpl against the settings classes."""

import ast
import inspect
import json
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

import pytest
from charts.generator.sections import has_rule, sections_of_document
from contracts.configuration.test_conflicts import ACCEPTED, HEADER, REFUSED
from deployment.helm import CHART, Helm, HelmError, documents_in

from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.contracts.configuration import conflicts, settings
from equipoise.runtime.configuration import ConfigurationError, read_document, read_sections

pytestmark = pytest.mark.timeout(1800)  # only for the first build of helm

Settings = Mapping[str, Any]

QUERY = "{mean: 'rate(a[$window])', samples: a}"
CUSTOM = "profile: custom, custom: {nodeCpu: "
MEASURED = "{node: 'rate(x[$window])', capacity: 1}"
POOL = "{name: a, nodeSelector: {}}"
SELECTOR = "nodeSelector: {matchExpressions: [{key: a,"

WRONG = [
    "nats: {url: 'tls://tap:secret@nats:4222'}",
    "nats: {url: 'wss://a:1,ws://b:1', tls: {caFile: ca.crt}}",
    "load: {windows: []}",
    "load: {windows: [{name: 5m, length: 0s, refreshPeriod: 15s}]}",
    "load: {windows: [{name: 5m, length: 5m, refreshPeriod: 0ms}]}",
    "load: {windows: [{name: 1h, length: 1h, refreshPeriod: 1m}, {name: 5m, length: 5m, refreshPeriod: 1m}]}",
    "load: {windows: [{name: 5m, length: 5m, refreshPeriod: 1m}, {name: 5m, length: 1h30m, refreshPeriod: 1m}]}",
    "thresholds: {low: {cpu: 62}}",
    "thresholds: {low: {memory: 60.5}, high: {memory: 65}}",
    "thresholds: {prodLow: {pods: 8}, prodHigh: {pods: 12.5}}",
    "thresholds: {prodHigh: {memory: 81}}",
    "thresholds: {low: {pods: 100}, high: {pods: 100}}",
    "namespaces: {include: [a], exclude: [b]}",
    "protection: {statefulSets: [shop/db, db]}",
    "protection: {statefulSets: [a/b/c, db]}",
    "collector: {shard: Zone}",
    "descheduler: {consolidation: {removalTimeout: 0s}}",
    "descheduler: {consolidation: {prices: {nodes: [{instanceType: a, perHour: 1}]}}}",
    "descheduler: {consolidation: {prices: {currency: EUR, nodes: [{perHour: 1}]}}}",
    "descheduler: {consolidation: {prices: {currency: EUR, nodes: [{instanceType: a, perHour: 1, currency: USD}]}}}",
    "collector: {shard: zone-12}",
    "collector: {unmeasuredNodes: [{pool: edge}, {}]}",
    "collector: {prometheus: {url: 'prometheus:9090'}}",
    "collector: {prometheus: {url: 'https://'}}",
    "collector: {prometheus: {url: 'https://me:secret@prometheus'}}",
    "collector: {prometheus: {bearerTokenFile: a, basicAuthentication: {username: b, passwordFile: c}}}",
    "collector: {prometheus: {certFile: a}}",
    "collector: {prometheus: {nodeLabels: []}}",
    "collector: {prometheus: {profile: custom}}",
    f"collector: {{prometheus: {{custom: {{podCpu: {QUERY}}}}}}}",
    f"collector: {{prometheus: {{profile: custom, custom: {{podCpu: {QUERY}}}}}}}",
    f"collector: {{prometheus: {{{CUSTOM}{{mean: 'rate(a[5m])', samples: a}}}}}}}}",
    f"collector: {{prometheus: {{{CUSTOM}{{mean: 'rate(a[$window])', samples: 'sum(a)'}}}}}}}}",
    f"collector: {{prometheus: {{{CUSTOM}{{mean: 'rate(a[$window])', samples: 'a{{b=\"1\"}}[5m]'}}}}}}}}",
    "collector: {metricsServer: {interval: 1h}}",
    "collector: {metricsServer: {interval: 0s}}",
    "collector: {loadWatcher: {url: 'ftp://load-watcher'}}",
    "collector: {loadWatcher: {interval: 0s}}",
    "annotator: {membership: {leaseDuration: 15}}",
    "annotator: {nodes: {minChange: 5, minInterval: 1h, refreshPeriod: 30m}}",
    "annotator: {workloads: {minChange: 5, minInterval: 0s, refreshPeriod: 30m}}",
    "annotator: {hints: {validity: 0s}}",
    "annotator: {hints: {validity: 10m1s}}",
    "annotator: {hints: {minInterval: 0s}}",
    "annotator: {hints: {minInterval: 76s}}",
    "scorer: {hints: {interval: 0s}}",
    "scorer: {policy: {name: water_level, windowWeights: {15m: 0}}}",
    "scorer: {shadow: {name: water_level, resourceWeights: {cpu: 0, memory: 0}}}",
    "scorer: {policy: {name: profile, resourceWeights: {cpu: 0, memory: 0, balance: 1}}}",
    "scorer: {policy: {name: load_aware, resourceWeights: {}}}",
    "scorer: {policy: {name: load_aware, aggregated: {usageThresholds: {pods: 10}}}}",
    "scorer: {policy: {name: dynamic, priorities: [{window: 5m, resource: cpu, weight: 0}]}}",
    "scorer: {policy: {name: dynamic, hotValue: [{span: 0s, count: 1}]}}",
    "scorer: {policy: {name: peaks, defaultPowerModel: null}}",
    "scorer: {policy: {name: peaks, nodePowerModel: {a: {k0: 0, k1: -1, k2: 1}}}}",
    "scorer: {policy: {name: mix, parts: [{policy: {name: load_aware}}, {policy: {name: dynamic, priorities: []}}]}}",
    "scorer: {reclaimed: {lifetime: 0s}}",
    "reclaimer: {interval: 0s}",
    "reclaimer: {forecast: {day: 0s}}",
    "reclaimer: {degrade: {keep: 15m}}",
    "reclaimer: {pools: [{name: a, matchLabels: {}}]}",
    "reclaimer: {pools: [{name: a, matchLabels: {b: c}}, {name: a, matchLabels: {b: d}}]}",
    "descheduler: {leaderElection: {renewDeadline: 15}}",
    "descheduler: {leaderElection: {retryPeriod: 8.4}}",
    "descheduler: {strategies: []}",
    "descheduler: {workloads: [Deployment, DaemonSet]}",
    "descheduler: {interval: 0s}",
    "descheduler: {strategies: [{name: low_node_load}, {name: low_node_load}]}",
    "descheduler: {strategies: [{name: low_node_load, deviation: {low: {cpu: 1}, high: {cpu: 3}}}]}",
    "descheduler: {strategies: [{name: low_node_load, deviation: {prodLow: {pods: 2}, prodHigh: {pods: 2}}}]}",
    f"descheduler: {{strategies: [{{name: low_node_load, pools: [{POOL}, {POOL}]}}]}}",
    f"descheduler: {{strategies: [{{name: level_day, {SELECTOR} operator: In}}]}}}}]}}",
    f"descheduler: {{strategies: [{{name: level_day, {SELECTOR} operator: Exists, values: [b]}}]}}}}]}}",
    "descheduler: {strategies: [{name: level_day, weights: {cpu: 0, memory: 0}}]}",
    "scorer: {neutral: true}\ndescheduler: {strategies: [{name: bin_pack, thresholds: {}}]}",
    "binder: {maxIntentLifetime: 0s}",
    f"load: {{resources: {{a: {MEASURED}}}}}\nthresholds: {{resources: {{a: {{high: 40, low: 36}}}}}}",
    f"load: {{resources: {{a: {MEASURED}}}}}\nscorer: {{policy: {{name: profile, furtherWeights: {{b: 1}}}}}}",
    "descheduler: {strategies: [{name: rules, rules: [{metric: b, operator: Equals, target: 3}]}]}",
    "scorer: {policy: {name: rules, prefer: {metric: b}}}",
    "thresholds: {resources: {a: {high: 40}}}",
    "descheduler: {strategies: [{name: rules, rules: [{metric: '', operator: Equals, target: 3}]}]}",
    "scorer: {policy: {name: rules, avoid: []}}",
    "load: {resources: {a: {node: 'rate(x[$window])', capacity: 0}}}",
    "surge: {readyTimeout: 0s}",
    "surge: {readyTimeout: 61m}",
    "binder: {limits: {maintenance: {only: [{days: []}]}}}",
    *(text for text, _ in REFUSED.values()),
]
"""Sections of equipoise.yaml that the services refuse, though each setting alone is valid: one for every rule."""

RIGHT = [
    "nats: {url: 'wss://a:1,tls://b:1', tls: {caFile: ca.crt}}",
    "load: {windows: [{name: 5m, length: 5m, refreshPeriod: 1m}, {name: 1h, length: 1h0.5m, refreshPeriod: 100ms}]}",
    "thresholds: {low: {cpu: 60, pods: 10}, high: {cpu: 65}, prodHigh: {cpu: 65}}",
    "thresholds: {low: {cpu: 0}, high: {cpu: 5}}",
    "namespaces: {exclude: [b]}",
    "protection: {statefulSets: [shop/db, 'cache/*', '*']}",
    "collector: {shard: zone-a1, prometheus: {url: 'HTTPS://[::1]:9090/path', certFile: a, keyFile: b}}",
    f"collector: {{prometheus: {{{CUSTOM}{{mean: 'rate(a[$window])', samples: ' a{{b=\"(1)\"}} '}}}}}}}}",
    "annotator: {membership: {leaseDuration: 16}}",
    "scorer: {policy: {name: water_level, resourceWeights: {cpu: 0}}}",
    "scorer: {policy: {name: load_aware, resourceWeights: {}, dominantResourceWeight: 1}}",
    "scorer: {policy: {name: load_aware, usageThresholds: {pods: 0}}}",
    "scorer: {policy: {name: peaks, defaultPowerModel: null, nodePowerModel: {a: {k0: 0, k1: 1, k2: 1}}}}",
    f"load: {{resources: {{a: {MEASURED}}}}}\nthresholds: {{resources: {{a: {{high: 40, low: 35}}}}}}",
    f"load: {{resources: {{a: {MEASURED}}}}}\nscorer: {{policy: {{name: profile, furtherWeights: {{a: 1}}}}}}",
    "scorer: {policy: {name: rules, prefer: {metric: cpu}, avoid: [{metric: cpu, operator: GreaterThan, target: 1}]}}",
    "descheduler: {leaderElection: {retryPeriod: 8.3}}",
    "descheduler: {intentLifetime: 15m, workloads: [CloneSet]}",
    "descheduler: {intentLifetime: 20m}\nbinder: {maxIntentLifetime: 0.5h}",
    "descheduler: {strategies: [{name: low_node_load, deviation: {low: {cpu: 2}, high: {cpu: 3}}}]}",
    *ACCEPTED.values(),
]

OF_SERVICES = "Helm cannot read PromQL: the services check it, at their start"

NOT_IN_THE_CHART = {
    "unknown time zone ": "Helm has no database of time zones",
    "certFile and keyFile belong together": "the chart sets nats.tls, without a client certificate",
    "user and passwordFile belong together": "the chart sets the users, in variables",
    "url must begin with ": "values.schema.json refuses it",
    " must apply ": OF_SERVICES,
    " must be about now, without offset and @ ": OF_SERVICES,
    "capacity must be a number or PromQL ": OF_SERVICES,
    "capacity must be a number without quotes": OF_SERVICES,
    "nodeLabel ": OF_SERVICES,
    "resources: ": OF_SERVICES,
    "target must be a number ": "JSON has no other numbers",
}
"""Rules without an example above, by the first words, with the reason."""


@pytest.fixture(scope="module")
def faults(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[Settings]], list[list[str]]]:
    """What the templates find in each of several documents. They are rendered at once: a start of helm takes longer."""
    chart = tmp_path_factory.mktemp("rules") / "chart"
    (chart / "templates").mkdir(parents=True)
    shutil.copytree(CHART / "files", chart / "files")
    for path in (CHART / "templates").glob("_*.tpl"):
        shutil.copy(path, chart / "templates")
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: rules, version: 0.0.0}\n")
    template = """\
faults:
{{- range .Values.documents }}
- {{ include "equipoise.faults" (dict "document" . "files" $.Files) | toJson }}
{{- end }}
"""
    (chart / "templates" / "faults.yaml").write_text(template)

    def found(documents: Sequence[Settings]) -> list[list[str]]:
        [rendered] = documents_in(helm.run("template", "rules", chart, values={"documents": list(documents)}))
        return [text.splitlines() for text in rendered["faults"]]

    return found


def refusal(document: Settings) -> list[str]:
    """What the services report, without the value that is refused, and with the path in the values of the chart."""
    try:
        read_sections(document, SERVICE_SETTINGS)
    except ConfigurationError as error:
        lines = [line.partition(": ") for line in str(error).splitlines()]
        return [
            f"{'' if path.partition('.')[0] == 'nats' else 'config.'}{path}: "
            f"{words.partition(' is not allowed: ')[2] or words}"
            for path, _, words in lines
        ]
    return []


Faults = Callable[[Sequence[Settings]], list[list[str]]]


def test_every_contradiction_is_refused_with_its_path_and_words(faults: Faults) -> None:
    """Those of the services."""
    documents = [read_document(HEADER + text) for text in WRONG]
    expected = [refusal(document) for document in documents]
    assert [text for text, lines in zip(WRONG, expected, strict=True) if not lines] == []
    found = faults(documents)
    assert dict(zip(WRONG, found, strict=True)) == dict(zip(WRONG, expected, strict=True))


def test_nothing_else_is_refused(faults: Faults) -> None:
    """What the services accept, the chart installs."""
    documents = [read_document(HEADER + text) for text in RIGHT]
    assert [refusal(document) for document in documents] == [[]] * len(documents)
    assert faults(documents) == [[]] * len(documents)


def test_documents_made_at_random_get_the_verdict_of_the_services(faults: Faults) -> None:
    """Sections of several of those above, with other numbers. The services stop at the first fault of a section."""
    chance = random.Random(1)
    wrong, right = ([read_document(HEADER + text) for text in texts] for texts in (WRONG, RIGHT))
    documents = []
    while len(documents) < 300:
        document: dict[str, Any] = {}
        for _ in range(chance.randint(1, 3)):
            document |= chance.choice(chance.choice([wrong, right, right]))
        document = varied(document, chance)
        if not any("expected " in line for line in refusal(document)):  # a value that the JSON schema refuses
            documents.append(document)
    expected = [refusal(document) for document in documents]
    assert 50 < expected.count([]) < 250, "some are refused, and some are not"
    for document, lines, found in zip(documents, expected, faults(documents), strict=True):
        assert (set(lines) <= set(found)) if lines else not found, f"{document}: {lines} {found}"


def varied(value: Any, chance: random.Random) -> Any:
    """A copy in which about half of the numbers and durations are others."""
    if isinstance(value, Mapping):
        return {name: varied(each, chance) for name, each in value.items()}
    if isinstance(value, list):
        return [varied(each, chance) for each in value]
    if isinstance(value, bool) or chance.random() < 0.5:
        return value
    if isinstance(value, int | float):
        return chance.choice([0, 1, 5, value, value - 5, value + 5, value + 0.5, 40, 62.25, 65, 80])
    if isinstance(value, str) and re.fullmatch("[0-9.]+[smhd]", value):
        return chance.choice(["0s", "5m", "300s", "15m", "20m", "1h30m", "90m", "0.5h", "1500ms"])
    return value


def test_every_rule_has_an_example() -> None:
    """Each statement of the settings classes that refuses something is reached by one of the documents above."""
    modules = {sys.modules[section.__module__] for section in sections_of_document() if has_rule(section)}
    statements = [(module.__file__, each) for module in {*modules, conflicts} for each in refusals_in(module)]
    reached: set[tuple[str | None, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for text in WRONG:
            refusal(read_document(HEADER + text))
    finally:
        sys.settrace(before)
    missing = sorted(words for file, (lines, words) in statements if reached.isdisjoint((file, line) for line in lines))
    assert len(statements) > 50
    assert [words for words in missing if not words.startswith(tuple(NOT_IN_THE_CHART))] == []
    assert len(missing) == len(NOT_IN_THE_CHART)


def refusals_in(module: ModuleType) -> Iterator[tuple[range, str]]:
    """The lines and the words of every statement that raises, or in the shared settings makes, a refusal."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        made = isinstance(node, ast.Return | ast.Assign | ast.Expr) and module in (settings, conflicts)
        texts = [each for each in ast.walk(node) if isinstance(each, ast.JoinedStr)]
        if isinstance(node, ast.Raise) or (made and texts):
            words = "".join(
                each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )
            if " " in words:
                yield range(node.lineno, (node.end_lineno or node.lineno) + 1), words


def test_every_section_with_a_rule_has_a_template() -> None:
    """Without one, Helm refuses every configuration that has the section."""
    rules = (CHART / "templates" / "_rules.tpl").read_text()
    sections = json.loads((CHART / "files" / "sections.json").read_text())["sections"]

    assert [
        name for name, section in sections.items() if section["rule"] and f'"equipoise.rule.{name}"' not in rules
    ] == []


def test_a_contradiction_ends_the_installation(helm: Helm) -> None:
    """Before anything is applied; also one between the values of the chart."""
    with pytest.raises(HelmError, match=r"\nconfig.thresholds: low.cpu \(62\) must be at least 5 points below"):
        helm.text({"config": {"thresholds": {"low": {"cpu": 62}}}})
    with pytest.raises(HelmError, match="nats: ws:// is never encrypted: use wss:// with tls"):
        helm.text({"nats": {"enabled": False, "url": "ws://mine:8080"}})
