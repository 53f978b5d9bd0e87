"""Kubernetes quantities: "250m" and "1Gi" to numbers."""

import math
import re
from functools import lru_cache

_SUFFIXES = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
    "Ei": 2.0**60,
}

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]+)")


@lru_cache(maxsize=16_384)
def parse_quantity(text: str) -> float:
    """The number of a quantity, in its base unit (cores, bytes, pieces).

    Raises ValueError for anything that kube-apiserver would refuse as well.
    Source of the grammar: apimachinery/pkg/api/resource/quantity.go.
    """
    if match := _QUANTITY.fullmatch(text):
        digits, suffix = match.groups()
        # Anything else is an exponent: "1e3" and "1E3". "1E" alone is exa.
        number = float(digits) * _SUFFIXES[suffix] if suffix in _SUFFIXES else float(text)
        if math.isfinite(number):
            return number
    raise ValueError(f"{text!r} is not a Kubernetes quantity (examples: 250m, 2, 512Mi, 1e3)")
