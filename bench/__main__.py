"""Run benchmarks by name, each in its own process, so that no benchmark affects the memory of the next."""

import subprocess
import sys

MODULES = {
    "score_all": "score_all",
    "refresh_all": "score_all",
    "prioritize_cpu": "score_all",
    "hints": "hints",
    "hint_placement": "hint_placement",
    "prioritize_http": "prioritize_http",
    "scorer_memory": "scorer_state",
    "scorer_warm_start": "scorer_state",
    "burst": "burst",
    "scheduling_tax": "scheduling_tax",
    "scorer_failures": "scorer_failures",
    "collect_5000": "collect_5000",
    "publish_5000": "publish_5000",
    "reflector_150k": "reflector_150k",
    "annotate_5000": "annotate_5000",
    "freshness": "freshness",
    "plan_5000": "plan_5000",
    "binder": "binder",
    "weeks": "weeks",
    "level_vs_descheduler": "level_vs_descheduler",
    "live_5000": "live_5000",
    "live_page": "live_page",
    "resources": "resources",
    "first_insight": "first_insight",
    "lab_replay": "lab",
    "lab_memory": "lab",
}
LONG = ("level_vs_descheduler",)
"""Take more than an hour: run only if named."""


def main() -> int:
    names = sys.argv[1:] or [name for name in MODULES if name not in LONG]
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        print(f"unknown benchmark: {', '.join(unknown)}; available: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    code = 0
    for module in dict.fromkeys(MODULES[name] for name in names):
        print(f"== {module}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"bench.{module}"]
        code = max(code, subprocess.run(command, check=False).returncode)  # noqa: S603  names of the table
    return code


if __name__ == "__main__":
    sys.exit(main())
