"""Kubernetes quantities: "250m" and "1Gi" to numbers."""

import math
import re
from functools import lru_cache

from equipoise.contracts.bounds import MAX_BYTES, MAX_CORES

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

_QUANTITY = re.compile(r"([+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++))([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]+)")


LONGEST_TEXT = 4_000
"""Characters. Longer texts are refused: they would fill the caches, and int() refuses more digits."""

NO_QUANTITY = "is not a Kubernetes quantity"
"""Part of the error about a text that the API server would refuse."""


@lru_cache(maxsize=16_384)
def parse_quantity(text: str) -> float:
    """The number of a quantity, in its base unit (cores, bytes, pieces).

    Raises ValueError for a text that kube-apiserver would refuse as well, and for a number too large for a float.
    Source of the grammar: apimachinery/pkg/api/resource/quantity.go.
    """
    number = magnitude(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]!r} is more than any machine has")
    return number


@lru_cache(maxsize=16_384)
def magnitude(text: str) -> float:
    """The value of `parse_quantity`, but infinite if the number is too large for a float. For comparisons."""
    if len(text) <= LONGEST_TEXT and (match := _QUANTITY.fullmatch(text)):
        digits, suffix = match.groups()
        # Anything else is an exponent: "1e3" and "1E3". "1E" alone is exa.
        return float(digits) * _SUFFIXES[suffix] if suffix in _SUFFIXES else float(text)
    raise ValueError(f"{text[:40]!r} {NO_QUANTITY} (examples: 250m, 2, 512Mi, 1e3)")


def most_of(resource: str) -> float:
    """The largest plausible amount of a resource, in its base unit.

    Even a virtual node that represents a whole cluster has less. A larger amount, on one pod or node, would dominate
    every sum. Floats represent all integers up to this amount exactly.
    """
    name = resource.rpartition("/")[2]
    if name in ("cpu", "requests.cpu"):
        return MAX_CORES
    if name.endswith("-cpu"):  # kubernetes.io/batch-cpu and mid-cpu are in millicores
        return MAX_CORES * 1_000
    return MAX_BYTES


@lru_cache(maxsize=16_384)
def known_quantity(resource: str, text: str) -> float:
    """The value of `parse_quantity`. Raises ValueError also if the amount is negative or implausibly large."""
    amount = parse_quantity(text)
    if not 0 <= amount <= most_of(resource):
        why = "it is negative" if amount < 0 else f"no machine has more than {most_of(resource):g}"
        raise ValueError(f"{resource} is {text[:40]!r}: {why}")
    return amount
