"""The output of benchmarks: figures on stdout, progress on stderr."""

import json
import operator
import sys
from collections.abc import Callable

COMPARISONS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


def report(
    name: str,
    value: float,
    unit: str,
    *,
    target: tuple[str, float] | None = None,
    baseline: float | None = None,
    **details: float | str,
) -> None:
    """Print one JSON line. `ratio` is value / baseline. `target` applies to the ratio if there is a baseline."""
    ratio = value / baseline if baseline else None
    met = None
    if target is not None:
        comparison, bound = target
        met = COMPARISONS[comparison](value if ratio is None else ratio, bound)
    line = {
        "name": name,
        "value": round(value, 4),
        "unit": unit,
        "ratio": None if ratio is None else round(ratio, 3),
        "baseline": baseline if baseline is None else round(baseline, 4),
        "target": None if target is None else f"{target[0]} {target[1]:g}",
        "met": met,
    }
    print(json.dumps(line | details), flush=True)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
