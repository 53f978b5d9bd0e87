"""What is compared with what in one trace."""

from collections.abc import Iterator, Sequence

import msgspec

from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import GREEDY, STOCK, Plan, Settings
from equipoise.lab.results import Foresight, Run, Scenario
from equipoise.lab.runners import Job, Runner
from equipoise.lab.scenarios import SCENARIOS
from equipoise.scorer.decisions.policies import ScoringPolicy, name_of
from equipoise.scorer.decisions.policies.single import SINGLE

REFERENCES = (STOCK, GREEDY)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared. Without a word on it, everything."""

    scenarios: tuple[Scenario, ...] = tuple(SCENARIOS)
    policies: tuple[str, ...] = ()
    """Names of policies, STOCK, GREEDY; the configured policy counts under its name. None: all, that one among them."""

    descheduler: tuple[bool, ...] = (False, True)
    arrivals: tuple[int, ...] = (1,)
    """Seeds, each an order of arrivals of its own."""

    weight: int = 5
    foresight: Foresight = "profile"


def policies_of(names: Sequence[str], configured: ScoringPolicy) -> dict[str, ScoringPolicy | None]:
    """Each name's policy, with the configured one's own parameters. Raises ValueError for a name that nobody has."""
    own = name_of(configured)
    found: dict[str, ScoringPolicy | None] = {}
    for name in names:
        if name in REFERENCES:
            found[name] = None
        elif name == own:
            found[name] = configured
        elif name in SINGLE:
            found[name] = SINGLE[name]()
        else:
            raise ValueError(f"no such policy: {name} (there are {', '.join((*REFERENCES, *SINGLE))})")
    return found


def plans(question: Question, settings: Settings) -> list[Plan]:
    """One plan per replay. STOCK without the descheduler is always among them: everything is compared with it.

    Where a trace's own placement is all that happens (`given` without the descheduler) one replay says it all, and the
    greedy reference places afresh only. Raises ValueError for a policy that nobody has.
    """
    names = question.policies or (STOCK, GREEDY, *dict.fromkeys((*SINGLE, name_of(settings.scorer.policy))))
    policies = {STOCK: None} | policies_of(names, settings.scorer.policy)
    found = []
    for scenario in question.scenarios:
        for name, policy in policies.items():
            for descheduler in sorted({False, *question.descheduler} if name == STOCK else question.descheduler):
                if name == GREEDY and (descheduler or scenario != "fresh"):
                    continue
                if scenario == "given" and not descheduler and name != STOCK:
                    continue
                found += [
                    Plan(
                        scenario=scenario,
                        policy=name,
                        scoring=policy,
                        descheduler=descheduler,
                        seed=seed,
                        weight=question.weight,
                        foresight=question.foresight,
                    )
                    for seed in question.arrivals[: 1 if scenario == "given" else None]
                ]
    return found


def compare(trace: Trace, wanted: Sequence[Plan], settings: Settings, runner: Runner) -> Iterator[Run]:
    """The runs as they end. See `beside_stock` for what each had before."""
    jobs = [Job(plan=plan, settings=settings) for plan in wanted]
    for _, run in runner(trace, jobs):
        yield run


def beside_stock(runs: Sequence[Run]) -> list[Run]:
    """In the order of their figures, each with what the stock scheduler alone made of the same order of arrivals."""
    stock = {_case(run): run for run in runs if run.figures.policy == STOCK and not run.figures.descheduler}
    ordered = sorted(runs, key=lambda run: (*_case(run), run.figures.policy, run.figures.descheduler))
    return [msgspec.structs.replace(run, before=stock[_case(run)].after) for run in ordered]


def _case(run: Run) -> tuple[str, int]:
    return run.figures.scenario, run.figures.arrival_seed
