"""PromQL of the user that is limited to the series of some nodes."""

from time import process_time

import pytest

from equipoise.collector.decisions.further.divided_promql import UndividedPromqlError, divide_promql
from equipoise.collector.decisions.query import NodeMatcher

INSTANCES = NodeMatcher("instance", ("a:9100", "b-1:9100"))
CHOSEN = 'instance=~"a:9100|b-1:9100"'


@pytest.mark.parametrize(
    ("promql", "limited"),
    [
        ("rate(x[5m])", "rate(x{%s}[5m])"),
        ('sum by (instance) (rate(x{device="eth0"}[5m]))', 'sum by (instance) (rate(x{%s,device="eth0"}[5m]))'),
        ("sum(rate(x[5m])) by (instance, job)", "sum(rate(x{%s}[5m])) by (instance, job)"),
        ("sum without (cpu) (x{})", "sum without (cpu) (x{%s})"),
        ('sum by ("instance") (x)', 'sum by ("instance") (x{%s})'),
        ("topk by (instance) (3, x)", "topk by (instance) (3, x{%s})"),
        ("100 * a / b", "100 * a{%s} / b{%s}"),
        ("a / on (instance) group_left (model) b", "a{%s} / on (instance) group_left (model) b{%s}"),
        ("a and ignoring (cpu) b > bool 3", "a{%s} and ignoring (cpu) b{%s} > bool 3"),
        ("max_over_time((x - y)[5m:30s] offset -5m)", "max_over_time((x{%s} - y{%s})[5m:30s] offset -5m)"),
        ("x @ start() # a comment (", "x{%s} @ start() # a comment ("),
        ('{"my.metric", text="} or ("}', '{%s,"my.metric", text="} or ("}'),
        ("x UNLESS y", "x{%s} UNLESS y{%s}"),
        ("a / on (instance) group_left b", "a{%s} / on (instance) group_left b{%s}"),
        ("x or vector(0)", "x{%s} or vector(0)"),
        ('label_replace(x, "model", "$1", "name", "(.+)")', 'label_replace(x{%s}, "model", "$1", "name", "(.+)")'),
        ("-clamp_min(x, 0) ^ 2", "-clamp_min(x{%s}, 0) ^ 2"),
        ('x # {c\n{a="b"}', 'x # {c\n{%s,a="b"}'),
        ("x { # c }\n}", "x {%s # c }\n}"),
        (
            "sum by (instance,) (x) / on (instance) group_left y",
            "sum by (instance,) (x{%s}) / on (instance) group_left y{%s}",
        ),
        (
            'label_replace(label_replace(x, "a", "$1", "b", ""), "c", "$1", "d", "")',
            'label_replace(label_replace(x{%s}, "a", "$1", "b", ""), "c", "$1", "d", "")',
        ),
    ],
)
def test_each_selector_is_limited_if_every_step_keeps_nodes_apart(promql: str, limited: str) -> None:
    assert limited.replace("%s", CHOSEN) == divide_promql(promql, ["instance"]).limited(INSTANCES)


@pytest.mark.parametrize(
    ("promql", "why"),
    [
        ("sum(x)", "sum combines series of several nodes"),
        ("topk(3, x)", "topk combines series of several nodes"),
        ("sum by (pod) (x)", r"by \(pod\) may combine"),
        ("sum without (instance) (x)", r"without \(instance\) may combine"),
        ('sum without ("instance") (x)', r"without \(instance\) may combine"),
        ("sum by (instance) (x) / sum by () (x)", r"by \(\) may combine"),
        ("x / on (job) y", r"on \(job\) may combine"),
        ("x / ignoring (instance) y", r"ignoring \(instance\) may combine"),
        ("x * on (instance) group_left (instance) y", "group_left changes the label instance"),
        ('label_replace(x{y="("}, "instance", "$1", "node", "(.+)")', r"label_replace\(\) changes the label instance"),
        ("label_join(x, `instance`, `-`, `node`)", r"label_join\(\) changes the label instance"),
        ("x / scalar(y)", r"scalar\(\) may combine"),
        ("absent(x)", r"absent\(\) may combine"),
        ("histogram_quantile(0.9, x)", r"histogram_quantile\(\) may combine"),
        ('x{a="b" or c="d"}', "a selector has alternatives"),
        ("rate(x[5m] anchored)", "'anchored' is not understood"),
        ("x default y", "'default' is not understood"),
        ("x * nan keep_metric_names", "'keep_metric_names' is not understood"),
        ("(x", r"its '\(' is not understood"),
        ("x)", r"its '\)' is not understood"),
        ("sum by", "'by' is not understood"),
        ("sum(x) by (instance) default 0", "'default' is not understood"),
        ("sum(x) without (pod) limit 10", "'limit' is not understood"),
        ("sum(x) by (instance) keep_metric_names", "'keep_metric_names' is not understood"),
        ("median by (instance) (x)", "'median' is not understood"),
        ("ANY WITHOUT (pod) (x)", "'ANY' is not understood"),
        ('count_values by (instance) ("v", x)', "'count_values' is not understood"),
        ("limitk by (instance) (1, x)", "'limitk' is not understood"),
        ('x * on (instance) group_left (a) prefix "b" (y)', "'prefix' is not understood"),
        (r'sum without ("inst\u0061nce") (x)', "is not understood as a label"),
        ('sum without ("inst" + "ance") (x)', r"'\+' is not understood as a label"),
        ("sum without (inst ance) (x)", "'ance' is not understood as a label"),
        (r'label_replace(x, "inst\u0061nce", "$1", "a", "")', r"label_replace\(\) changes is not understood"),
        ('label_replace(x, "inst" + "ance", "$1", "a", "")', r"label_replace\(\) changes is not understood"),
        ('label_replace(x, ("instance"), "$1", "a", "")', r"label_replace\(\) changes is not understood"),
        ("label_join(x)", r"label_join\(\) changes is not understood"),
        ("x ~ y", "'~ y' is not understood"),
        ("1", "it has no selector"),
        ("", "it has no selector"),
    ],
)
def test_a_step_that_may_combine_nodes_is_named(promql: str, why: str) -> None:
    with pytest.raises(UndividedPromqlError, match=why):
        divide_promql(promql, ["instance"])


def test_a_step_that_keeps_pods_apart_needs_both_labels_of_a_pod() -> None:
    divide_promql("sum by (namespace, pod) (rate(x[5m]))", ["namespace", "pod"])
    with pytest.raises(UndividedPromqlError, match="several nodes"):
        divide_promql("sum by (pod) (rate(x[5m]))", ["namespace", "pod"])


def test_selectors_are_named_once_each() -> None:
    promql = 'sum by (node) (x{a="b"}) / (sum by (node) (x{a="b"}) + y)'
    assert ('x{a="b"}', "y") == divide_promql(promql, ["node"]).selector_texts()


@pytest.mark.parametrize(
    "promql",
    [
        'label_replace(x, "pod", "$1", "exported_pod", "(.+)")',
        "sum by (node) (x) * on (node) group_left (pod) y",
    ],
)
def test_a_label_that_is_kept_is_written_by_no_step(promql: str) -> None:
    """Pods of a result are named by labels of their series."""
    divide_promql(promql, ["node"])
    with pytest.raises(UndividedPromqlError, match="changes the label pod"):
        divide_promql(promql, ["node"], ["pod"])


RENAMED = 'label_replace(label_replace(%s, "pod", "$1", "exported_pod", "(.+)"), "namespace", "$1", "%s", "(.*)")'
BY_EXPORTED = "sum by (exported_namespace, exported_pod) (x)"


def test_the_labels_of_a_pod_may_be_copied_from_those_of_an_exporter() -> None:
    """Both of them, and as they are."""
    keys, kept = ["exported_namespace", "exported_pod"], ["namespace", "pod"]
    divide_promql(RENAMED % (BY_EXPORTED, "exported_namespace"), keys, kept, exported=True)
    for promql, why in (
        (RENAMED % (BY_EXPORTED, "team"), "changes the label namespace"),
        (f'label_replace({BY_EXPORTED}, "pod", "$1", "exported_pod", "(.+)")', "only pod is written"),
        (f'label_replace({BY_EXPORTED}, "pod", "$1", "exported_pod", "(.+)-.*")', "changes the label pod"),
        (f'label_replace({BY_EXPORTED}, "pod", "a-$1", "exported_pod", "(.+)")', "changes the label pod"),
    ):
        with pytest.raises(UndividedPromqlError, match=why):
            divide_promql(promql, keys, kept, exported=True)


def test_nested_functions_are_read_once() -> None:
    """Their number of tokens is that of steps."""
    depth = 5_000
    promql = "label_replace(" * depth + "x" + ', "a", "", "", "")' * depth
    began = process_time()
    assert ("x",) == divide_promql(promql, ["node"]).selector_texts()
    assert process_time() - began < 5.0
