"""Run benchmarks by name, each in its own process, so that no benchmark affects the memory of the next.

Options after the names are passed on: `python -m bench scheduling_cost --rounds 3`.
"""

import itertools
import subprocess
import sys

MODULES = {
    "score_all": "scorer.score_all",
    "refresh_all": "scorer.score_all",
    "prioritize_cpu": "scorer.score_all",
    "hints": "hints.updates",
    "hint_placement": "hints.hint_placement",
    "hint_sizes": "hints.hint_sizes",
    "hints_webhook": "hints.hints_webhook",
    "prioritize_http": "scorer.prioritize_http",
    "scorer_memory": "scorer.scorer_state",
    "scorer_warm_start": "scorer.scorer_state",
    "burst": "scheduling.burst",
    "scheduling_cost": "scheduling.scheduling_cost",
    "scorer_failures": "scorer.scorer_failures",
    "collect_5000": "collector.collect_5000",
    "publish_5000": "collector.publish_5000",
    "reflector_150k": "collector.reflector_150k",
    "annotate_5000": "annotate_5000",
    "freshness": "collector.freshness",
    "plan_5000": "descheduler.plan_5000",
    "binder": "binder",
    "moves_500": "descheduler.moves_500",
    "agent": "reclaimer.agent",
    "reclaim_5000": "reclaimer.reclaim_5000",
    "weeks": "weeks",
    "level_vs_descheduler": "descheduler.level_vs_descheduler",
    "make_room": "descheduler.make_room",
    "make_room_model": "descheduler.make_room_model",
    "live_5000": "page.live_5000",
    "live_page": "page.live_page",
    "resources": "resources",
    "first_insight": "collector.first_insight",
    "lab_replay": "lab",
    "lab_memory": "lab",
    "scheduling_library": "scheduling.scheduling_library",
    "second_scheduler": "scheduling.second_scheduler",
    "consolidation": "descheduler.consolidation",
    "rebalance": "descheduler.rebalance",
    "pressure": "pressure",
    "real_nodes": "real_nodes",
    "consolidation_model": "descheduler.consolidation_model",
    "size": "size",
}
LONG = (
    "consolidation", "level_vs_descheduler", "make_room", "pressure", "real_nodes", "rebalance", "scheduling_cost",
    "second_scheduler",
)  # fmt: skip
"""Take half an hour or longer and build programs of others, or need root and a quiet machine: run only if named."""


def main() -> int:
    named = list(itertools.takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    options = sys.argv[1 + len(named) :]
    if not named and {"-h", "--help"} & {*options}:
        print(f"{__doc__}\n{', '.join(MODULES)}")
        return 0
    names = named or [name for name in MODULES if name not in LONG]
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        print(f"unknown benchmark: {', '.join(unknown)}; available: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    code = 0
    for module in dict.fromkeys(MODULES[name] for name in names):
        print(f"== {module}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"bench.{module}", *options]
        code = max(code, subprocess.run(command, check=False).returncode)  # noqa: S603  names of the table
    return code


if __name__ == "__main__":
    sys.exit(main())
