"""The user's own PromQL: a mean, and the raw samples that tell whether it may be trusted."""

from collections.abc import Mapping

import msgspec

from equipoise.collector.decisions.query import Ask, Subject
from equipoise.collector.settings import WINDOW, CustomQuery, PrometheusSettings
from equipoise.collector.sources.profiles.profile import Profile, Usage
from equipoise.collector.sources.profiles.raw import about_samples, statistic
from equipoise.collector.sources.queries import milliseconds


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Usage as the settings ask for it. `matchers` are not added: the user's words stay as they are."""

    words: CustomQuery
    subject: Subject

    def query(self, ask: Ask, _: Mapping[str, str]) -> str | None:
        """See Usage."""
        if ask.what == "spacing" and self.subject == "pod":
            return None  # raw samples of all pods are too many: the nodes' spacing holds
        window, step = milliseconds(ask.length), milliseconds(ask.step)
        if ask.what == "mean":
            return self.words.mean.replace(WINDOW, window)
        inner = self.words.mean.replace(WINDOW, step)
        return about_samples(ask, self.words.samples) or statistic(ask, f"({inner})[{window}:{step}]")


def custom(settings: PrometheusSettings) -> Profile:
    """The profile that `collector.prometheus.custom` describes."""
    words = settings.custom
    cpu = _written(node=words.node_cpu, pod=words.pod_cpu)
    memory = _written(node=words.node_memory, pod=words.pod_memory)
    # What kind of memory it is only the user knows.
    return Profile(cpu=cpu, memory={"workingSet": memory, "anonymous": memory}, names_only=True)


def _written(*, node: CustomQuery | None, pod: CustomQuery | None) -> Mapping[Subject, Usage]:
    found: dict[Subject, Usage] = {}
    if node is not None:
        found["node"] = Written(words=node, subject="node")
    if pod is not None:
        found["pod"] = Written(words=pod, subject="pod")
    return found
