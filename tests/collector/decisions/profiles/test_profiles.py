"""The PromQL of every query profile."""

from itertools import product
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.custom import CustomQueries, CustomQuery, custom_profile
from equipoise.collector.decisions.profiles.kubelet import POD_CPU, POD_MEMORY
from equipoise.collector.decisions.profiles.query_profile import MemoryKind, QueryProfile
from equipoise.collector.decisions.query import Aggregate, MetricQuery, ResourceName, Subject
from equipoise.collector.settings import PrometheusSettings

OWN = CustomQuery(mean="sum by (node) (rate(my_cpu[$window]))", samples='my_cpu{core="0"}')
WHATS: list[Aggregate] = [aggregate for part in get_args(Aggregate) for aggregate in (get_args(part) or (part,))]


OLDER_KERNELS = (
    " or last_over_time(node_memory_HugePages_Total[5m]) * last_over_time(node_memory_Hugepagesize_bytes[5m])"
    " or 0 * last_over_time(node_memory_MemFree_bytes[5m]))"
)


def a_profile(name: str) -> QueryProfile:
    return PROFILES[name](CustomQueries(node_cpu=OWN, node_memory=OWN, pod_cpu=OWN, pod_memory=OWN))


def a_query(**fields: object) -> MetricQuery:
    defaults: dict[str, object] = {
        "subject": "node", "resource": "cpu", "aggregate": "mean", "length": 300.0, "at": 0.0, "step": 15.0,
    }  # fmt: skip
    return MetricQuery(**(defaults | fields))  # type: ignore[arg-type]


def promql(name: str, query: MetricQuery, memory: MemoryKind = "workingSet", **matchers: str) -> str | None:
    profile = a_profile(name)
    usages = profile.cpu if query.resource == "cpu" else profile.memory[memory]
    return usages[query.subject].promql(query, matchers)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "rate(node_cpu_usage_seconds_total[300000ms])"),
        ({"resource": "memory"}, "avg_over_time(node_memory_working_set_bytes[300000ms])"),
        ({"subject": "pod"}, "rate(pod_cpu_usage_seconds_total[300000ms])"),
        ({"aggregate": "count"}, "count_over_time(node_cpu_usage_seconds_total[300000ms])"),
        ({"aggregate": "newest"}, "timestamp(node_cpu_usage_seconds_total offset -2m)"),
        ({"aggregate": "last"}, "max_over_time(timestamp(node_cpu_usage_seconds_total)[300000ms:15000ms])"),
        ({"aggregate": "spacing"}, "node_cpu_usage_seconds_total[300000ms]"),
        (
            {"aggregate": "p95"},
            "quantile_over_time(0.95, rate(node_cpu_usage_seconds_total[15000ms])[300000ms:15000ms])",
        ),
        ({"aggregate": "max", "resource": "memory"}, "max_over_time(node_memory_working_set_bytes[300000ms])"),
        ({"aggregate": "deviation", "resource": "memory"}, "stddev_over_time(node_memory_working_set_bytes[300000ms])"),
    ],
)
def test_the_promql_of_the_kubelet_profile(fields: dict[str, object], expected: str) -> None:
    """A mean of cpu is the rate of the counter; memory is averaged; statistics of cpu use inner rates."""
    assert expected == promql("kubelet", a_query(**fields))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {},
            "sum without (cpu, mode) "
            '(rate(node_cpu_seconds_total{mode=~"user|nice|system|irq|softirq|steal"}[300000ms]))',
        ),
        (
            {"aggregate": "newest"},
            'max without (cpu, mode) (timestamp(node_cpu_seconds_total{cpu="0",mode="user"} offset -2m))',
        ),
        (
            {"resource": "memory"},
            "avg_over_time(node_memory_MemTotal_bytes[300000ms]) - avg_over_time(node_memory_MemFree_bytes[300000ms])"
            " - avg_over_time(node_memory_Inactive_file_bytes[300000ms])"
            " - (avg_over_time(node_memory_Hugetlb_bytes[300000ms])" + OLDER_KERNELS,
        ),
        (
            {"resource": "memory", "aggregate": "max"},
            "max_over_time((node_memory_MemTotal_bytes - node_memory_MemFree_bytes"
            " - node_memory_Inactive_file_bytes - (node_memory_Hugetlb_bytes" + OLDER_KERNELS + ")[300000ms:15000ms])",
        ),
        (
            {"subject": "pod"},
            'rate(container_cpu_usage_seconds_total{container="",image="",name="",pod!=""}[300000ms])',
        ),
    ],
)
def test_the_promql_of_the_kube_prometheus_profile(fields: dict[str, object], expected: str) -> None:
    """Cores and modes are added up within their target only; a pod is the cgroup of the pod."""
    assert expected == promql("kube-prometheus", a_query(**fields))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"length": 86_400.0}, "equipoise:node_cpu:mean1d"),
        ({"length": 86_400.0, "aggregate": "count"}, "equipoise:node_cpu:count1d"),
        ({"length": 3_600.0, "aggregate": "newest", "resource": "memory"}, "equipoise:node_memory:newest1h"),
        ({"length": 600.0}, "rate(equipoise:node_cpu_seconds:sum[600000ms])"),
        ({"length": 600.0, "aggregate": "newest"}, "equipoise:node_cpu:newest"),
        (
            {"length": 600.0, "aggregate": "count", "resource": "memory"},
            "count_over_time(node_memory_MemTotal_bytes[600000ms]) * clamp_max("
            "count_over_time(equipoise:node_memory_working_set_bytes[600000ms]) * 30 / 600, 1)",
        ),
        ({"aggregate": "last"}, "max_over_time(equipoise:node_cpu:newest[300000ms])"),
        (
            {"aggregate": "p95", "length": 3_600.0},
            "quantile_over_time(0.95, rate(equipoise:node_cpu_seconds:sum[15000ms])[3600000ms:15000ms])",
        ),
    ],
)
def test_the_promql_of_the_recording_rules_profile(fields: dict[str, object], expected: str) -> None:
    """Windows with rules are looked up; other windows are computed from the recorded counter."""
    assert expected == promql("recording-rules", a_query(**fields))


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("mean", "sum by (node) (rate(my_cpu[300000ms]))"),
        ("newest", 'timestamp(my_cpu{core="0"} offset -2m)'),
        ("count", 'count_over_time(my_cpu{core="0"}[300000ms])'),
        ("max", "max_over_time((sum by (node) (rate(my_cpu[15000ms])))[300000ms:15000ms])"),
    ],
)
def test_the_promql_of_a_custom_profile(aggregate: str, expected: str) -> None:
    """Two expressions are enough for every query."""
    assert expected == promql("custom", a_query(aggregate=aggregate))


@pytest.mark.parametrize("name", [name for name in PROFILES if name != "custom"])
@given(length=st.sampled_from([300.0, 900.0, 3_600.0, 86_400.0]) | st.floats(0.001, 1e7), step=st.floats(0.001, 1e6))
def test_every_query_has_valid_promql(name: str, length: float, step: float) -> None:
    """Every selector has the configured matchers, and brackets are balanced."""
    profile = a_profile(name)
    for subject, resource, aggregate in product(get_args(Subject), get_args(ResourceName), WHATS):
        query = a_query(subject=subject, resource=resource, aggregate=aggregate, length=length, step=step)
        for usages in [profile.cpu] if resource == "cpu" else profile.memory.values():
            text = usages[subject].promql(query, {"cluster": "blue"})
            if text is None:
                assert aggregate in ("pods", "size") or ("pod", "spacing") == (subject, aggregate)
                continue

            assert 'cluster="blue"' in text
            assert text.count("{") == text.count('cluster="blue"}')
            assert text.count("(") == text.count(")")


PODS = (("kube-system", "proxy-a.b"), ("shop", "web-0"), ("shop", "x|y"))


def test_the_spacing_of_pods_is_limited_to_some() -> None:
    """By namespace and name: many namespaces may have a pod of the same name."""
    query = a_query(subject="pod", aggregate="spacing", pods=PODS)
    found = promql("kube-prometheus", query) or ""

    assert (
        r'container="",image="",name="",pod!="",namespace=~"kube-system|shop",pod=~"proxy-a\\.b|web-0|x\\|y"' in found
    )
    either = promql("kube-prometheus", msgspec.structs.replace(query, pod_series="any")) or ""
    assert "image" not in either
    assert 'pod=~"' in either


@pytest.mark.parametrize(("resource", "metric"), [("cpu", POD_CPU), ("memory", POD_MEMORY)])
def test_the_kubelets_pods_have_a_spacing_of_their_own(resource: str, metric: str) -> None:
    """A kubelet measures its node every 10 s, and each pod every 10 to 20 s."""
    query = a_query(subject="pod", resource=resource, aggregate="spacing", pods=PODS)

    assert promql("kubelet", query) == (
        rf'{metric}{{namespace=~"kube-system|shop",pod=~"proxy-a\\.b|web-0|x\\|y"}}[300000ms]'
    )
    number = promql("kubelet", msgspec.structs.replace(query, aggregate="pods", pods=()))
    assert number == f"count without (namespace, pod, container, id, image, name, cpu, uid) ({metric})"


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ("x", '{namespace=~"a",pod=~"b|c"}'),
        ("x{}", '{namespace=~"a",pod=~"b|c"}'),
        (' x{pod!="", } ', '{pod!="",namespace=~"a",pod=~"b|c"}'),
        ('x{image=",}"}', '{image=",}",namespace=~"a",pod=~"b|c"}'),
    ],
)
def test_the_spacing_of_custom_pods_is_limited_to_some(samples: str, expected: str) -> None:
    """Series of pods have the labels `namespace` and `pod`."""
    usage = custom_profile(CustomQueries(pod_cpu=CustomQuery(mean="x[$window]", samples=samples))).cpu["pod"]
    spacing = a_query(subject="pod", aggregate="spacing", pods=(("a", "b"), ("a", "c")))
    number = a_query(subject="pod", aggregate="pods")

    assert f"x{expected}[300000ms]" == usage.promql(spacing, {})
    assert f"count without (namespace, pod, container, id, image, name, cpu, uid) ({samples.strip()})" == usage.promql(
        number, {}
    )


def test_anonymous_memory_is_the_same_for_nodes_and_pods() -> None:
    """Memory without a file."""
    anonymous = [a_query(resource="memory", subject=subject) for subject in ("node", "pod")]

    assert [
        "avg_over_time(node_memory_AnonPages_bytes[300000ms])",
        'avg_over_time(container_memory_rss{container="",image="",name="",pod!=""}[300000ms])',
    ] == [promql("kube-prometheus", query, "anonymous") for query in anonymous]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"mean": "rate(x[5m])"}, "must hold $window"),
        ({"samples": "timestamp(x)"}, "plain selector"),
        ({"samples": "x[5m]"}, "plain selector"),
        ({"samples": ""}, "plain selector"),
        ({"samples": "x + y"}, "plain selector"),
        ({"samples": "x{a='b'} or y{c='d'}"}, "plain selector"),
    ],
)
def test_an_invalid_custom_query_is_refused(fields: dict[str, str], complaint: str) -> None:
    """Raw samples must come from a plain selector: a function would give the time of the query."""
    with pytest.raises(msgspec.ValidationError, match=complaint.replace("$", r"\$")):
        msgspec.convert({"mean": "rate(x[$window])", "samples": "x"} | fields, CustomQuery)


@pytest.mark.parametrize("samples", ["x", "x:y", '{__name__="x"}', 'x{a="(}{"}', "x{a='b',c=~\"d|e\"}"])
def test_a_plain_selector_is_accepted(samples: str) -> None:
    """Whatever its quoted values hold."""
    assert samples == CustomQuery(mean="x[$window]", samples=samples).samples


@pytest.mark.parametrize(
    "settings",
    [
        {"profile": "custom"},
        {"profile": "kubelet", "custom": {"nodeCpu": {"mean": "x[$window]", "samples": "x"}}},
        {"profile": "custom", "custom": {"podCpu": {"mean": "x[$window]", "samples": "x"}}},
    ],
)
def test_custom_queries_and_the_custom_profile_require_each_other(settings: dict[str, object]) -> None:
    """At least one query of nodes is required."""
    with pytest.raises(msgspec.ValidationError, match="custom"):
        msgspec.convert(settings, PrometheusSettings)
