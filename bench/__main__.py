"""Run benchmarks by name, each in a process of its own: what one leaves in memory is not the next one's."""

import subprocess
import sys

MODULES = {
    "score_all": "score_all",
    "refresh_all": "score_all",
    "prioritize_cpu": "score_all",
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
    "level_vs_descheduler": "level_vs_descheduler",
    "lab_replay": "lab",
    "lab_memory": "lab",
}
LONG = ("level_vs_descheduler",)
"""More than an hour: only when it is asked for by name."""


def main() -> int:
    wanted = sys.argv[1:] or [name for name in MODULES if name not in LONG]
    unknown = [name for name in wanted if name not in MODULES]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(MODULES)}", file=sys.stderr)
        return 2
    code = 0
    for module in dict.fromkeys(MODULES[name] for name in wanted):
        print(f"== {module}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"bench.{module}"]
        code = max(code, subprocess.run(command, check=False).returncode)  # noqa: S603  names of the table
    return code


if __name__ == "__main__":
    sys.exit(main())
