"""The extender entry of kube-scheduler: whether it requests scores, and whether pods follow them.

The configuration of a kube-scheduler cannot be read in general, but its effect is published: every scorer counts its
requests, and the pods that were placed on a node with the highest score.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.doctor.foreign_configuration import read_foreign
from equipoise.contracts.bus.subjects import PREFIX
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice, ScoresFollowed
from equipoise.descheduler.settings import HINT_POINTS
from equipoise.runtime.bus import BusError, BusUnavailable, NotPermitted
from equipoise.runtime.configuration.yaml_text import UnreadableYaml
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, KubeError
from equipoise.scorer.settings import ScorerSettings

ADVICE = f"{PREFIX}.advice.>"

PERIOD = 900.0
"""Seconds of reviews that are read: a scorer publishes one every five minutes."""

CONNECT_TIMEOUT = 5.0
"""Seconds, the same as for the check of the bus, which runs at the same time."""

MIN_PLACED = 20
"""Placed pods below which the share is not significant."""

MIN_RATIO = 1.2
"""The factor by which pods must follow scores more often than by chance, so that scores count as used."""

MAX_TIMEOUT = 1.0
"""Seconds. With a longer httpTimeout, a scorer that does not respond delays every pod."""

ENTRY = "k8s/scheduler/extender.yaml"
SUBJECT = "kube-scheduler"


class RecentAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """What scorers published within the period."""

    scores: list[ScoresFollowed] = []
    """The latest values of each review. A review covers at most one hour of one scorer."""

    placed: int = 0
    """Pods that were placed, by any scheduler."""


async def extender(environment: Environment) -> list[Finding]:
    try:
        finding = score_finding(
            await _recent_advice(environment),
            hints=environment.settings.shared.placement.hints,
            target_points=environment.settings.descheduler.points(environment.settings.shared.placement),
        )
    except NotPermitted as error:
        finding = Finding("unknown", SUBJECT, str(error), "use the user tap: --user tap --password-file FILE")
    except BusError as error:
        finding = Finding("unknown", SUBJECT, f"not checked: {error}")
    return [finding, *client_findings(environment.settings.scorer), *await _configured_entries(environment)]


def client_findings(settings: ScorerSettings) -> list[Finding]:
    """A warning if the scorer is configured to accept any client."""
    if not (settings.serves_any_client and settings.extender.allow_unauthenticated):
        return []
    message = f"the extender at {settings.listen} answers anyone: any client can change where pods are placed"
    fix = "set scorer.extender.tls with clientCaFile: `equipoise certificates` creates the files"
    return [Finding("warning", "scorer", message, fix)]


async def _recent_advice(environment: Environment) -> RecentAdvice:
    if environment.nats_problem:
        raise BusUnavailable("NATS cannot be reached, see the check bus")
    reviews: dict[str, ClusterReview] = {}
    placed = 0
    nats, user, clock = environment.settings.shared.nats, environment.nats_user, environment.clock
    since = clock.now() - PERIOD
    async for subject, message in retained_messages(
        nats, ADVICE, since=since, clock=clock, user=user, connect_timeout=CONNECT_TIMEOUT
    ):
        if isinstance(message, PlacementAdvice):
            placed += 1
        elif isinstance(message, ClusterReview):
            reviews[subject] = message
    scores = [review.scores for review in reviews.values() if review.scores is not None]
    return RecentAdvice(scores=scores, placed=placed)


def score_finding(advice: RecentAdvice, *, hints: bool = False, target_points: int = HINT_POINTS) -> Finding:
    """Whether scores are requested and used. `hints`: whether placement hints are enabled, which need no requests.

    `target_points`: the points that the descheduler assumes the target to get from scores.
    """
    if not advice.scores:
        message = "no scorer has published the number of its requests in the last 15 minutes"
        fix = "after an installation, wait five minutes; otherwise check that a scorer is running and ready (/readyz)"
        return Finding("unknown", SUBJECT, message, fix)
    requests = max(scores.requests for scores in advice.scores)
    if not requests and hints and target_points > HINT_POINTS:
        message = (
            "it sends no requests to the scorers, but the descheduler assumes that scores give the target of a move "
            f"{target_points} points"
        )
        fix = "set placement.extender to false (with Helm: extender.enabled), and remove descheduler.targetPoints"
        return Finding("warning", SUBJECT, message, fix)
    if not requests and hints:
        return Finding(
            "ok", SUBJECT, "it sends no requests to the scorers; placement hints are enabled, which need none"
        )
    if not requests:
        placed = f", although {advice.placed} pods were placed" if advice.placed else ""
        message = f"it has sent no request to the running scorers{placed}: scores are not used"
        fix = (
            f"add the entry of {ENTRY}; if it exists, check that its host can reach the address in urlPrefix. To move"
            " pods without scores, set placement.extender to false"
        )
        return Finding("warning", SUBJECT, message, fix)
    counted = [scores for scores in advice.scores if scores.placed and scores.followed is not None]
    placed_pods = sum(scores.placed for scores in counted)
    if placed_pods < MIN_PLACED:
        message = f"it sends requests ({requests}); {placed_pods} placed pods are too few to know if scores are used"
        return Finding("ok", SUBJECT, message)
    followed = sum((scores.followed or 0.0) * scores.placed for scores in counted) / placed_pods
    chance = sum((scores.by_chance or 0.0) * scores.placed for scores in counted) / placed_pods
    share = f"{followed:.0%} of {placed_pods} pods were placed on a node with the highest score, by chance {chance:.0%}"
    if followed >= min(MIN_RATIO * chance, 0.99):
        return Finding("ok", SUBJECT, f"scores are used: {share}")
    return Finding(
        "warning",
        SUBJECT,
        f"scores are requested and not used: {share}",
        f"check `weight` against {ENTRY}, and that the scorer responds within httpTimeout "
        "(equipoise_scorer_request_duration_seconds); selectors and affinities of pods also restrict the choice",
    )


async def _configured_entries(environment: Environment) -> list[Finding]:
    """Findings about the extender entries in ConfigMaps, which a kube-scheduler in a pod or a second scheduler uses."""
    findings: list[Finding] = []
    for namespace in ("kube-system", environment.settings.shared.kubernetes.namespace):
        try:
            maps = await environment.api().list(CONFIG_MAPS, namespace)
        except KubeError:
            continue  # the permission is optional, because scorers report the effect of an entry
        findings += config_map_findings(maps)
    return findings


def config_map_findings(maps: Sequence[ConfigMap]) -> list[Finding]:
    """A finding for each ConfigMap with a KubeSchedulerConfiguration."""
    return [
        entry_finding(f"ConfigMap {each.metadata.namespace}/{each.metadata.name}", text)
        for each in maps
        for text in each.data.values()
        if "KubeSchedulerConfiguration" in text
    ]


class _SchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    extenders: list[dict[str, Any]] | None = None


def entry_finding(subject: str, text: str) -> Finding:
    """The finding about the scorer's entry in a KubeSchedulerConfiguration."""
    try:
        extenders = read_foreign(text, _SchedulerConfiguration).extenders or []
    except UnreadableYaml as error:
        return Finding("warning", subject, f"cannot be read: {error}", "correct it")
    scorers = [each for each in extenders if each.get("prioritizeVerb") == "prioritize"]
    if not scorers:
        return Finding("warning", subject, "has no scorer", f"add the entry of {ENTRY}")
    if faults := entry_faults(scorers[0]):
        return Finding("warning", subject, "; ".join(faults), f"use the values of {ENTRY}")
    return Finding("ok", subject, f"uses the scorer at {scorers[0].get('urlPrefix')}")


def entry_faults(entry: dict[str, Any]) -> list[str]:
    """What is wrong with an entry, and its effect."""
    faults = []
    if not entry.get("ignorable"):
        faults.append("ignorable is not true: without a scorer no pod is placed")
    if not entry.get("nodeCacheCapable"):
        faults.append("nodeCacheCapable is not true: kube-scheduler sends whole nodes, megabytes per pod")
    if not entry.get("weight"):
        faults.append("weight is missing: kube-scheduler rejects the entry")
    if _seconds(entry.get("httpTimeout")) > MAX_TIMEOUT:
        faults.append(f"httpTimeout is {entry.get('httpTimeout', '5s')}: a scorer that hangs delays every pod by this")
    if entry.get("bindVerb"):
        faults.append("bindVerb is set: the scorer does not bind pods")
    return faults


def _seconds(text: Any) -> float:
    """The seconds of a Go duration with one unit; kube-scheduler's default is 5 s."""
    for unit, size in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
        if isinstance(text, str) and text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * size
            except ValueError:
                break
    return 5.0
