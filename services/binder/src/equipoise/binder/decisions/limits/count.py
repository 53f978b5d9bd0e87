"""How many: as people write it in the configuration, and as a number."""

import math
from fractions import Fraction
from typing import Annotated, Literal

from msgspec import Meta

UNLIMITED: Literal["unlimited"] = "unlimited"

Count = Annotated[int, Meta(ge=0)] | Literal["unlimited"]
"""A number, or "unlimited". 0: nothing may move."""

ShareOrCount = (
    Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern=r"^(unlimited|(100|[0-9]{1,2})(\.[0-9]{1,3})?%)$")]
)
"""A number, a share such as "10%" (rounded down, but at least 1), or "unlimited". 0 and "0%": nothing may move."""


def amount(setting: int | str, of: int) -> float:
    """The number a setting stands for; infinite for "unlimited". `of` is what a share refers to."""
    if isinstance(setting, int):
        return setting
    if setting == UNLIMITED:
        return math.inf
    share = Fraction(setting.removesuffix("%")) / 100
    return max(1, math.floor(share * of)) if share else 0


def of_replicas(setting: int | str | None, replicas: int) -> float:
    """How many of a workload's replicas; one replica always stays where it is, if there are two.

    None: a tenth (rounded down) of more than 10, 2 of 4 to 10, 1 of fewer. Source: koordinator, GetMaxUnavailable.
    """
    if setting is None:
        most: float = replicas // 10 if replicas > 10 else 2 if replicas >= 4 else 1
    else:
        most = amount(setting, replicas)
    return most if most == math.inf else min(most, max(1, replicas - 1))


def halved(most: float) -> float:
    """Half, rounded up; nothing stays nothing."""
    return most if most == math.inf else math.ceil(most / 2)
