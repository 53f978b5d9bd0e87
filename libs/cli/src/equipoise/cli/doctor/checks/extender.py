"""The entry in kube-scheduler: is the scorer asked, and are its scores followed?

Nobody can read the configuration of a kube-scheduler that runs elsewhere, but what comes of it can be seen: every
scorer tells how often it was asked and how many pods came to a best node of their answer.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from equipoise.cli.doctor.environment import Surroundings
from equipoise.cli.doctor.finding import Finding
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.bus.subjects import matches
from equipoise.contracts.kubernetes.objects import ConfigMap
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice, ScoresFollowed
from equipoise.runtime.bus import BusError, NotPermitted
from equipoise.runtime.bus.stream_reader import history
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, KubeError

ADVICE = next(stream for stream in STREAMS if stream.name == "EQUIPOISE_ADVICE")

LOOK_BACK = 900.0
"""Seconds: a scorer tells every five minutes."""

ENOUGH = 20
"""Placed pods from which on a share says something."""

LEAST_GAIN = 1.2
"""How many times better than chance scores must be followed to count as used."""

SLOWEST = 1.0
"""Seconds: a longer httpTimeout lets a scorer that hangs hold up every pod."""

ENTRY = "k8s/scheduler/extender.yaml"
WHERE = "kube-scheduler"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was heard of the last quarter of an hour."""

    scores: list[ScoresFollowed] = []
    """The newest word of each part of an hour that a scorer told of."""

    reviews: int = 0
    placed: int = 0
    """Pods that were placed by anybody and advised on."""


async def extender(around: Surroundings) -> list[Finding]:
    findings = []
    try:
        findings.append(judged(await _told(around)))
    except NotPermitted as error:
        to_do = "ask as the user tap: --user tap --password-file FILE"
        findings.append(Finding(state="unknown", where=WHERE, what=str(error), to_do=to_do))
    except BusError as error:
        findings.append(Finding(state="unknown", where=WHERE, what=f"not looked at: {error}"))
    return findings + await _entries(around)


async def _told(around: Surroundings) -> Told:
    patterns = {channel.message: channel.pattern for channel in CHANNELS}
    reviews: dict[str, ClusterReview] = {}
    placed = 0
    settings, now = around.configured.shared.nats, around.clock.now()
    async for subject, payload in history(settings, around.bus_user, ADVICE, since=now - LOOK_BACK, clock=around.clock):
        try:
            if matches(patterns[PlacementAdvice], subject):
                placed += 1
            elif matches(patterns[ClusterReview], subject):
                reviews[subject] = msgspec.json.decode(payload, type=ClusterReview)
        except msgspec.MsgspecError:
            continue
    scores = [review.scores for review in reviews.values() if review.scores is not None]
    return Told(scores=scores, reviews=len(reviews), placed=placed)


def judged(told: Told) -> Finding:
    """Are scores asked for, and used?"""
    if not told.scores:
        return Finding(
            state="unknown",
            where=WHERE,
            what="no scorer has told of its answers in the last 15 minutes",
            to_do="is one running and ready (its /readyz)? It tells every five minutes, once it knows the fleet",
        )
    asked = max(scores.requests for scores in told.scores)
    if not asked:
        also = f", though {told.placed} pods were placed" if told.placed else ""
        return Finding(
            state="warning",
            where=WHERE,
            what=f"it has never asked a scorer that runs now{also}: no score is used",
            to_do=f"add the entry of {ENTRY}; if it is there: can the address in urlPrefix be reached from its host?",
        )
    counted = [scores for scores in told.scores if scores.placed and scores.followed is not None]
    placed = sum(scores.placed for scores in counted)
    if placed < ENOUGH:
        what = f"it asks ({asked} questions); {placed} placed pods are too few to say whether it follows the scores"
        return Finding(state="ok", where=WHERE, what=what)
    followed = sum((scores.followed or 0.0) * scores.placed for scores in counted) / placed
    chance = sum((scores.by_chance or 0.0) * scores.placed for scores in counted) / placed
    what = f"{followed:.0%} of {placed} pods came to a best node of their answer, by chance it would be {chance:.0%}"
    if followed >= min(LEAST_GAIN * chance, 1.0) or followed >= 0.99:
        return Finding(state="ok", where=WHERE, what=f"scores are used: {what}")
    return Finding(
        state="warning",
        where=WHERE,
        what=f"scores are asked for and not followed: {what}",
        to_do=f"is `weight` as in {ENTRY}, and does the scorer respond within httpTimeout "
        "(equipoise_scorer_request_duration_seconds)? Selectors and affinities of pods leave less to choose, too",
    )


async def _entries(around: Surroundings) -> list[Finding]:
    """What the ConfigMaps say that we can read: of a second scheduler, or of one that runs in the cluster."""
    own = around.configured.shared.kubernetes.namespace
    findings: list[Finding] = []
    for namespace in ("kube-system", own):
        try:
            maps = await around.api().list(CONFIG_MAPS, namespace)
        except KubeError:
            continue  # nobody needs to let us read them; what is told above does not hang on it
        findings += entries_of(maps)
    return findings


def entries_of(maps: Sequence[ConfigMap]) -> list[Finding]:
    """A finding for each ConfigMap that configures a kube-scheduler with an extender of ours, or none."""
    findings = []
    for each in maps:
        for text in each.data.values():
            if "KubeSchedulerConfiguration" not in text:
                continue
            where = f"ConfigMap {each.metadata.namespace}/{each.metadata.name}"
            findings.append(judged_entry(where, text))
    return findings


def judged_entry(where: str, text: str) -> Finding:
    """The entry of the scorer in a KubeSchedulerConfiguration."""
    try:
        document: Any = yaml.safe_load(text)
        extenders = [each for each in document.get("extenders") or [] if isinstance(each, dict)]
    except (yaml.YAMLError, AttributeError):
        return Finding(state="warning", where=where, what="is no configuration that can be read", to_do="correct it")
    ours = [each for each in extenders if each.get("prioritizeVerb") == "prioritize"]
    if not ours:
        return Finding(state="warning", where=where, what="asks no scorer", to_do=f"add the entry of {ENTRY}")
    if faults := faults_of(ours[0]):
        return Finding(state="warning", where=where, what="; ".join(faults), to_do=f"as in {ENTRY}")
    return Finding(state="ok", where=where, what=f"asks {ours[0].get('urlPrefix')}")


def faults_of(entry: dict[str, Any]) -> list[str]:
    """What of an entry can hurt, and how."""
    faults = []
    if not entry.get("ignorable"):
        faults.append("ignorable is not true: without a scorer no pod is placed")
    if not entry.get("nodeCacheCapable"):
        faults.append("nodeCacheCapable is not true: kube-scheduler sends whole nodes, megabytes a pod")
    if not entry.get("weight"):
        faults.append("weight is missing: kube-scheduler refuses that")
    if _seconds(entry.get("httpTimeout")) > SLOWEST:
        faults.append(
            f"httpTimeout is {entry.get('httpTimeout', '5s')}: a scorer that hangs holds up every pod as long"
        )
    if entry.get("bindVerb"):
        faults.append("bindVerb is set: the scorer binds nothing")
    return faults


def _seconds(text: Any) -> float:
    """Of a Go duration in one unit; kube-scheduler waits 5 s where none is given."""
    for unit, size in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
        if isinstance(text, str) and text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * size
            except ValueError:
                break
    return 5.0
