"""Run benchmarks by name, each in its own process, so that no benchmark affects the memory of the next.

Options after the names are passed on: `python -m bench scheduling_cost --rounds 3`.
"""

import itertools
import subprocess
import sys

MODULES = {
    "score_all": "score_all",
    "refresh_all": "score_all",
    "prioritize_cpu": "score_all",
    "hints": "hints",
    "hint_placement": "hint_placement",
    "hints_webhook": "hints_webhook",
    "prioritize_http": "prioritize_http",
    "scorer_memory": "scorer_state",
    "scorer_warm_start": "scorer_state",
    "burst": "burst",
    "scheduling_cost": "scheduling_cost",
    "scorer_failures": "scorer_failures",
    "collect_5000": "collect_5000",
    "publish_5000": "publish_5000",
    "reflector_150k": "reflector_150k",
    "annotate_5000": "annotate_5000",
    "freshness": "freshness",
    "plan_5000": "plan_5000",
    "binder": "binder",
    "moves_500": "moves_500",
    "agent": "agent",
    "reclaim_5000": "reclaim_5000",
    "weeks": "weeks",
    "level_vs_descheduler": "level_vs_descheduler",
    "make_room": "make_room",
    "make_room_model": "make_room_model",
    "live_5000": "live_5000",
    "live_page": "live_page",
    "resources": "resources",
    "first_insight": "first_insight",
    "lab_replay": "lab",
    "lab_memory": "lab",
    "scheduling_library": "scheduling_library",
    "second_scheduler": "second_scheduler",
    "consolidation": "consolidation",
    "rebalance": "rebalance",
    "pressure": "pressure",
    "consolidation_model": "consolidation_model",
    "size": "size",
}
LONG = (
    "consolidation", "level_vs_descheduler", "make_room", "pressure", "rebalance", "scheduling_cost",
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
