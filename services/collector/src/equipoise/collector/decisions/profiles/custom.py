"""The user's own PromQL: a mean, and the raw samples that show whether the mean is valid."""

import re
from collections.abc import Mapping

import msgspec

from equipoise.collector.decisions.profiles.query_profile import (
    Matchers,
    QueryProfile,
    UsageQueries,
    among,
    milliseconds,
    selector,
)
from equipoise.collector.decisions.profiles.raw import sample_query, statistic_query
from equipoise.collector.decisions.query import MetricQuery, Subject
from equipoise.contracts.configuration.further_resources import QUOTED, WINDOW
from equipoise.contracts.configuration.settings import Section

_SELECTOR = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(\{.*\})?|\{.+\}", re.ASCII | re.DOTALL)


class CustomQuery(Section, frozen=True, kw_only=True):
    """One resource of nodes or of pods in the user's own PromQL.

    Both results name the node by one of `nodeLabels`, a pod by `namespace` and `pod`, and hold one series for each.
    """

    mean: str
    """Mean usage in cores or bytes over `$window`: sum by (node) (rate(my_cpu_seconds_total[$window]))."""

    samples: str
    """Selects one raw series per node or pod, whose samples show age and gaps: my_cpu_seconds_total{core="0"}."""

    def __post_init__(self) -> None:
        if WINDOW not in self.mean:
            raise ValueError(f"mean must hold {WINDOW}, as in rate(my_cpu_seconds_total[{WINDOW}])")
        # The result of a function has the time of the query: only raw samples have an age.
        bare = QUOTED.sub('""', self.samples.strip())
        if _SELECTOR.fullmatch(bare) is None or set(bare.partition("{")[2]) & set("()[]{"):
            raise ValueError(f'samples must be a plain selector, as my_cpu_seconds_total{{core="0"}}: {self.samples!r}')


class CustomQueries(Section, frozen=True, kw_only=True):
    """The queries of `profile: custom`. A resource without a query is not measured: unknown, never 0."""

    node_cpu: CustomQuery | None = None
    node_memory: CustomQuery | None = None
    pod_cpu: CustomQuery | None = None
    pod_memory: CustomQuery | None = None


class CustomUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage by the user's query. `matchers` are not added: the query is sent as it is written."""

    custom: CustomQuery

    @property
    def metric(self) -> str:
        return self.custom.samples

    def promql(self, query: MetricQuery, _: Matchers) -> str | None:
        if query.pod_series == "containers":
            return None  # each pod has a series
        window, step = milliseconds(query.length), milliseconds(query.step)
        samples = self.custom.samples.strip()
        match query.aggregate:
            case "mean":
                return self.custom.mean.replace(WINDOW, window)
            case "spacing" if query.pods:
                return f"{_limited(samples, *among(query.pods))}[{window}]"
        inner = self.custom.mean.replace(WINDOW, step)
        return sample_query(query, samples) or statistic_query(query, f"({inner})[{window}:{step}]")


def _limited(samples: str, *more: str) -> str:
    """A plain selector with more conditions."""
    if not samples.endswith("}"):
        return selector(samples, {}, *more)
    conditions = samples[:-1].rstrip().rstrip(",")
    separator = "" if conditions.endswith("{") else ","
    return conditions + separator + ",".join(more) + "}"


def custom_profile(queries: CustomQueries) -> QueryProfile:
    """The profile that `collector.prometheus.custom` describes."""
    cpu = _usage({"node": queries.node_cpu, "pod": queries.pod_cpu})
    memory = _usage({"node": queries.node_memory, "pod": queries.pod_memory})
    # What kind of memory it is depends on the query.
    return QueryProfile(cpu=cpu, memory={"workingSet": memory, "anonymous": memory}, names_only=True)


def _usage(queries: Mapping[Subject, CustomQuery | None]) -> Mapping[Subject, UsageQueries]:
    return {subject: CustomUsage(custom=query) for subject, query in queries.items() if query is not None}
