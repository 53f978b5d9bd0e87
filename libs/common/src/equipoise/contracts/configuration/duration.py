"""Durations in the configuration: "90s", "5m", "1h30m"."""

import math
import re
from typing import Self

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PART = re.compile(r"(?<!\d)(\d++(?:\.\d++)?+)(ms|s|m|h|d)", re.ASCII)
"""The lookbehind keeps matching linear: a number without a unit is tried once, not again from each of its digits.
Anybody who creates pods can write a duration, in an annotation."""

PATTERN = r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"
"""The pattern of a duration in the JSON Schema."""

EXAMPLES = "250ms, 90s, 5m, 1h30m, 1d"


class Duration(float):
    """Seconds, written as "1h30m". A number without a unit is invalid."""

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses "250ms", "90s", "5m", "1h30m", "1d". Raises ValueError with examples."""
        if isinstance(text, str) and text:
            parts = _PART.findall(text)
            if "".join(number + unit for number, unit in parts) == text:
                seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
                if math.isfinite(seconds):
                    return cls(seconds)
        raise ValueError(f"{text!r} is not a duration (examples: {EXAMPLES})")

    def __str__(self) -> str:
        milliseconds = float(self) * 1_000
        remaining = round(milliseconds)
        if abs(milliseconds - remaining) > 1e-6 * max(1.0, abs(milliseconds)):
            return f"{float(self):.9f}".rstrip("0").rstrip(".") + "s"
        if remaining == 0:
            return "0s"
        text = ""
        for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
            count, remaining = divmod(remaining, size)
            text += f"{count}{unit}" if count else ""
        return text

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"
