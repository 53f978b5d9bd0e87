"""`make chaos SOAK=1h`: faults at random on one cluster while all services run.

A seed chooses the next fault, sometimes a second one that overlaps with it, and how long each lasts. After each step,
everything is repaired and evictions must continue. All invariants are checked every few minutes.
"""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import aiohttp
import msgspec

from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus import BusError
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.testbed.api import ApiError
from equipoise.testbed.objects import constant_usage_annotations
from faults import cluster_setup
from faults.actions import ACTIONS, DESCHEDULERS, SERVICES, Action
from faults.background import background
from faults.catalog.metrics import request_scores
from faults.history import Guarantees, History, Post, ProcessSample, Window
from faults.invariants import INVARIANTS, violations
from faults.invariants.evictions import counted
from faults.invariants.processes import MIB, by_process, slope_per_hour
from faults.rig import Inconclusive, Rig

PERIOD = 120.0
"""Seconds after which the invariants are checked."""

UNSETTLED = 90.0
"""Seconds after which an intent must have an outcome. Younger ones are checked at the end of the next period."""

REMEMBERED = 120.0
"""Seconds of evidence before a period: more than any window, and than a pod needs to be ready again."""

MIN_INTENTS_PER_MINUTE = 5
MIN_WARM = 90.0
"""Seconds of a process whose slope the report shows."""

SECOND_ACTION = 0.5
"""Share of the steps with two overlapping faults."""

FAILURES = (Inconclusive, KubeError, BusError, ApiError, aiohttp.ClientError, TimeoutError, OSError)
"""What an action may raise because of another one."""


class Report(msgspec.Struct, kw_only=True):
    """Of the whole run so far."""

    seed: int
    seconds: float = 0.0
    actions: Counter[str] = msgspec.field(default_factory=Counter)
    intents: int = 0
    posts: int = 0
    evictions: int = 0
    outcomes: Counter[str] = msgspec.field(default_factory=Counter)
    most: dict[str, int] = {}
    """By window of a limit, the highest number of evictions in it."""

    oldest: float = 0.0
    """Maximum age of the oldest sample of an intent at its POST, in seconds."""

    violations: dict[str, list[str]] = {}
    inconclusive: list[str] = []
    processes: Sequence[ProcessSample] = ()

    @property
    def violated(self) -> int:
        return sum(map(len, self.violations.values()))

    @property
    def exit_code(self) -> int:
        """As of the campaign: 1 an invariant was violated, 2 too little happened, or something was not repaired."""
        if self.violated:
            return 1
        enough = self.intents >= MIN_INTENTS_PER_MINUTE * self.seconds / 60 and self.evictions > 0
        return 0 if enough and not self.inconclusive else 2

    def line(self) -> str:
        return (
            f"{self.seconds / 60:.0f} min: {sum(self.actions.values())} faults, {self.intents} intents, "
            f"{self.evictions} evictions, {self.violated} violations"
        )

    def text(self) -> str:
        verdict = {0: "passed", 1: "VIOLATED", 2: "inconclusive"}[self.exit_code]
        lines = [
            f"soak with seed {self.seed}: {verdict} after {self.seconds / 60:.1f} min",
            f"{self.intents} intents ({60 * self.intents / max(self.seconds, 1):.0f} per minute, "
            f"{MIN_INTENTS_PER_MINUTE} required), {self.posts} eviction requests, {self.evictions} evictions",
            "",
            "| fault | times |",
            "|---|---|",
            *(f"| `{name}` | {times} |" for name, times in sorted(self.actions.items())),
            "",
            "| outcome | intents |",
            "|---|---|",
            *(f"| `{name}` | {count} |" for name, count in sorted(self.outcomes.items())),
            "",
            "| limit | allowed | maximum |",
            "|---|---|---|",
            *(
                f"| {_of(window)} | {window.max} | {self.most.get(_of(window), 0)} |"
                for window in cluster_setup.guarantees().windows
            ),
            f"| age of the data of an eviction | {cluster_setup.FRESHNESS:g} s | {self.oldest:.1f} s |",
            "",
            "| process | minutes | MiB at the end | MiB per hour |",
            "|---|---|---|---|",
            *_growth(self.processes),
        ]
        for name, found in self.violations.items():
            lines += ["", f"{name}: {len(found)} violations", *(f"  {each}" for each in found[:20])]
        lines += ["", *self.inconclusive[:20]] if self.inconclusive else []
        return "\n".join(lines)


def _of(window: Window) -> str:
    return f"evictions per {window.scope} in {window.seconds:g} s"


def _growth(samples: Iterable[ProcessSample]) -> list[str]:
    """The longest-lived process of each program; the slope without its first third."""
    longest: dict[str, list[ProcessSample]] = {}
    for (program, _), found in by_process(samples).items():
        if len(found) > len(longest.get(program, ())):
            longest[program] = found
    rows = []
    for program, found in sorted(longest.items()):
        warm = found[len(found) // 3 :]
        long_enough = warm[-1].at - warm[0].at >= MIN_WARM
        growth = f"{slope_per_hour(warm) / MIB:+.1f}" if long_enough else "too short"
        minutes, resident = (found[-1].at - found[0].at) / 60, found[-1].resident / MIB
        rows.append(f"| {program} | {minutes:.0f} | {resident:.0f} | {growth} |")
    return rows


def recent(history: History, before: float) -> History:
    """Without the evidence before this time that no check of a later time needs.

    The bindings and readiness of pods that still exist are needed, and of others nothing.
    """
    gone = {(post.namespace, post.pod): post.at for post in history.evictions}
    for change in history.pods:
        if change.what == "deleted":
            name = (change.namespace, change.pod)
            gone[name] = max(change.at, gone.get(name, 0.0))
    return msgspec.structs.replace(
        history,
        posts=tuple(post for post in history.posts if post.at >= before),
        pods=tuple(
            change
            for change in history.pods
            if change.at >= before or not change.at <= gone.get((change.namespace, change.pod), -math.inf) < before
        ),
    )


def most_in(window: Window, posts: Iterable[Post]) -> int:
    """The highest number of these evictions, which are in order of time, in one window of one scope."""
    return max((count for _, count in counted(window, posts)), default=0)


def oldest_data(history: History) -> float:
    """The maximum age of the oldest sample of an intent at its POST, in seconds."""
    candidates = history.candidates()
    return max(
        (
            min((post.left - published.intent.sampled_at for published in found), default=0.0)
            for post in history.new_evictions
            if (found := candidates(post))
        ),
        default=0.0,
    )


def judge(history: History, guarantees: Guarantees, report: Report) -> list[str]:
    """Adds the violations since `history.since`; returns those that no earlier period reported."""
    lines = []
    found = violations(recent(history, history.since - REMEMBERED), guarantees)
    found["I11"] = INVARIANTS["I11"](history, guarantees)  # returns count for a day
    for name, wrong in found.items():
        known = report.violations.get(name, [])
        new = [each for each in wrong if each not in known]
        if new:
            report.violations[name] = [*known, *new]
            lines += [f"{name}: {each}" for each in new]
    evictions = recent(history, history.since - REMEMBERED).evictions
    for window in guarantees.windows:
        name = _of(window)
        report.most[name] = max(report.most.get(name, 0), most_in(window, evictions))
    report.oldest = max(report.oldest, oldest_data(history))
    return lines


class Soak:
    """One run."""

    def __init__(self, rig: Rig, seed: int, seconds: float, show: Callable[[str], None]) -> None:
        self.rig = rig
        self.report = Report(seed=seed, processes=rig.recorder.processes)
        self._seconds = seconds
        self._show = show
        self._begin = rig.clock.now()
        self._judged_until = self._begin
        self._generator = random.Random(seed)

    @property
    def elapsed(self) -> float:
        return self.rig.clock.now() - self._begin

    async def run(self) -> Report:
        rig = self.rig
        async with rig.running(self.report.seed, "soak"):
            await rig.purge_outcomes()
            await rig.stop_fake_collector()
            rig.descheduler.epoch = None
            self._begin = self._judged_until = rig.since
            for service, count in SERVICES.items():
                await rig.start(service, count)
            async with background(
                self._follow_lease(), self._change_load(), request_scores(rig), self._show_progress()
            ):
                await rig.evictions(2)
                while self.elapsed < self._seconds:
                    await self._step()
                    if rig.clock.now() > self._judged_until + PERIOD:
                        await self._judge(final=False)
                # Pending intents are settled while the services still run.
                for name in DESCHEDULERS:
                    rig.programs[name].kill()
                rig.descheduler.max_pending = 0
                await rig.all_settled()
        await self._judge(final=True)
        return self.report

    async def _step(self) -> None:
        """One fault or two overlapping ones, repairs, and evictions again."""
        generator = self._generator
        chosen = [generator.choice(ACTIONS)]
        others = [action for action in ACTIONS if action.may_overlap(chosen[0])]
        if others and generator.random() < SECOND_ACTION:
            chosen.append(generator.choice(others))
        delays = [0.0, generator.uniform(0.0, 4.0)]
        await asyncio.gather(*(self._act(action, wait) for action, wait in zip(chosen, delays, strict=False)))
        names = " and ".join(action.name for action in chosen)
        await self._repair(names)
        try:
            await self.rig.evictions(2, seconds=120.0)
        except Inconclusive as error:
            self._problem(f"no evictions after {names}: {error}")

    async def _act(self, action: Action, wait: float) -> None:
        await asyncio.sleep(wait)
        self.report.actions[action.name] += 1
        try:
            await action.run(self.rig)
        except FAILURES as error:
            self._problem(f"{action.name}: {error!r}")

    def _problem(self, text: str) -> None:
        self.report.inconclusive.append(f"{self.elapsed:.0f} s: {text[:2_000]}")
        self._show(self.report.inconclusive[-1])

    async def _repair(self, after: str) -> None:
        """Nothing remains broken; a program that ended by itself is reported."""
        rig = self.rig
        rig.proxy.clear()
        rig.prometheus.clear()
        for program in rig.programs.values():
            if not program.runs:
                self._problem(f"{program.name} had ended after {after}:\n{program.tail()}")
                try:
                    await program.start()
                except Inconclusive as error:
                    self._problem(str(error))

    async def _judge(self, *, final: bool) -> None:
        rig, report = self.rig, self.report
        now = rig.clock.now()
        with suppress(*FAILURES):
            await rig.count_kept()
        history = rig.recorder.history(self._judged_until)
        if not final:
            # A young intent may still get its outcome; the next period begins with it.
            history = msgspec.structs.replace(
                history,
                intents=tuple(
                    msgspec.structs.replace(each, outcome_expected=False) if each.at > now - UNSETTLED else each
                    for each in history.intents
                ),
            )
        for line in judge(history, cluster_setup.guarantees(), report):
            self._show(line)
        whole = msgspec.structs.replace(history, since=self._begin)
        report.posts, report.evictions = len(whole.new_posts), len(whole.new_evictions)
        self._count()
        self._judged_until = now - UNSETTLED
        if not final:
            rig.recorder.forget(self._judged_until - REMEMBERED)

    def _count(self) -> None:
        self.report.seconds = self.elapsed
        self.report.intents = self.rig.recorder.seen
        self.report.outcomes = Counter(
            {outcome.value: count for outcome, count in self.rig.recorder.first_outcomes.items()}
        )
        self.report.evictions = max(self.report.evictions, self.report.outcomes[Outcome.EVICTED.value])

    async def _show_progress(self) -> None:
        """A line every minute."""
        while True:
            await asyncio.sleep(60.0)
            self._count()
            self._show(self.report.line())

    async def _follow_lease(self) -> None:
        """The harness proposes, too, in the name of the leader: also protected pods, and intents that expired."""
        while True:
            with suppress(*FAILURES):
                epoch = await self.rig.lease_epoch()
                self.rig.descheduler.epoch = epoch if epoch.holder else None
            await asyncio.sleep(0.3)

    async def _change_load(self) -> None:
        """Every 15 s the pods of two other nodes become busy, so deschedulers always have a reason."""
        generator = random.Random(self.report.seed)
        while True:
            hot = generator.sample(cluster_setup.NODES, 2)
            for pod in list(self.rig.collector.pods):
                if pod.metadata.namespace != cluster_setup.NAMESPACE:
                    continue
                milli = 1_500 if pod.spec.node_name in hot else 200
                annotations = constant_usage_annotations(milli, 256)
                if annotations.items() <= dict(pod.metadata.annotations).items():
                    continue
                with suppress(*FAILURES):
                    path = f"{cluster_setup.PODS}/{pod.metadata.name}"
                    await self.rig.api.patch(path, {"metadata": {"annotations": annotations}})
            await asyncio.sleep(15.0)


async def soak(rig: Rig, seed: int, seconds: float, show: Callable[[str], None]) -> Report:
    """Raises Inconclusive when the services do not start or nothing is evicted at first."""
    return await Soak(rig, seed, seconds, show).run()
