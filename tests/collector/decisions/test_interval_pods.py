"""Which pods show how often the pods of each node are scraped."""

from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.interval_pods import PODS_OF_NODE, QUERY_LENGTH, in_queries, interval_pods
from equipoise.collector.state.placement import PodName

NAMES = st.text("ab-.0", min_size=1, max_size=8)
POD_NAMES = st.tuples(NAMES, NAMES)


def test_pods_that_run_for_longest_are_tried_first() -> None:
    """A new pod may have no two samples."""
    since = {("shop", f"web-{number}"): 100.0 - number for number in range(10)}

    assert (("shop", "web-9"), ("shop", "web-8"), ("shop", "web-7")) == interval_pods(since)
    assert () == interval_pods({})


def test_pods_of_several_namespaces_are_tried() -> None:
    """The metrics of one may be excluded from scraping."""
    system = {("kube-system", f"proxy-{number}"): 1.0 for number in range(5)}
    since = {**system, ("shop", "web-0"): 2.0}

    assert (("kube-system", "proxy-0"), ("shop", "web-0"), ("kube-system", "proxy-1")) == interval_pods(since)
    of_many = interval_pods({(f"team-{number}", "web-0"): float(number) for number in range(9)})
    assert (("team-0", "web-0"), ("team-1", "web-0"), ("team-2", "web-0")) == of_many


@given(st.dictionaries(POD_NAMES, st.floats(0, 1e9)))
def test_the_number_of_pods_is_bounded(since: dict[PodName, float]) -> None:
    """By three of a node, however many pods it has."""
    found = interval_pods(since)

    assert len(set(found)) == len(found) == min(PODS_OF_NODE, len(since))
    assert set(found) <= since.keys()


@given(st.sets(POD_NAMES))
def test_every_pod_is_in_one_query(pods: set[PodName]) -> None:
    assert sorted(pods) == sorted(name for group in in_queries(pods) for name in group)


def test_a_query_is_short_enough_for_a_url() -> None:
    """A name that is too long alone has a query of its own, and no query is without a pod."""
    pods = [("shop", f"web-{number:060}") for number in range(500)]
    groups = list(in_queries([*pods, ("shop", "x" * QUERY_LENGTH)]))

    assert QUERY_LENGTH / 2 < max(sum(len(namespace + name) for namespace, name in group) for group in groups[:-1])
    assert all(sum(len(namespace + name) for namespace, name in group) <= QUERY_LENGTH for group in groups[:-1])
    assert (("shop", "x" * QUERY_LENGTH),) == groups[-1]
    assert [] == list(in_queries([]))


def test_pods_of_equal_names_share_a_query() -> None:
    """A query selects all combinations of its names and namespaces, and so few others."""
    pods = [(f"team-{number:050}", f"web-{name}") for number in range(100) for name in range(20)]

    assert all(len({name for _, name in group}) <= 2 for group in in_queries(pods))
