"""Translates thresholds of other deschedulers. Low and high thresholds of Equipoise must be 5 points apart."""

from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.cli.foreign_configuration.translation import Setting, Translation, member, number
from equipoise.contracts.configuration.settings import MIN_GAP, THRESHOLD_RESOURCES, Section

Percentages = Mapping[str, float | str]

_GAP = f"at least {MIN_GAP:g} points must lie between both, or what one move fills the next one empties"


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two thresholds of a source, with their paths."""

    low: Percentages
    low_path: str
    high: Percentages
    high_path: str
    deviation: bool
    """Whether the thresholds are distances from the mean."""


def pair_of(args: Section, path: str, low: str, high: str, *, deviation: bool | None) -> Pair:
    """The two thresholds in these fields of a section of the source."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(args)}
    return Pair(
        low=getattr(args, low) or {},
        low_path=f"{path}.{names[low]}",
        high=getattr(args, high) or {},
        high_path=f"{path}.{names[high]}",
        deviation=bool(deviation),
    )


def percentage(value: float | str | None) -> float | None:
    """A percentage as a number: 20, "20" and "20%" are 20."""
    return float(value.removesuffix("%")) if isinstance(value, str) else value


def translated_pair(translation: Translation, pair: Pair) -> tuple[dict[str, Any], dict[str, Any]]:
    """Low and high thresholds by resource, as `Setting`. A resource that the source ignores is in neither."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    for resource in dict.fromkeys((*pair.low, *pair.high)):
        low, high = percentage(pair.low.get(resource)), percentage(pair.high.get(resource))
        low_path, high_path = member(pair.low_path, resource), member(pair.high_path, resource)
        if resource not in THRESHOLD_RESOURCES:
            translation.lost(low_path, low if high is None else high, "only cpu, memory and pods have thresholds")
        elif low is None:
            translation.remark("note", high_path, high, "ignored there without a low threshold: left out")
        elif high is None:
            translation.lost(low_path, low, "without a high threshold it has no meaning here")
        elif not pair.deviation and low >= 100 and high >= 100:
            translation.remark("note", high_path, high, f"100 and 100 ignore {resource}: left out")
        elif pair.deviation and low == 0:
            translation.remark("note", low_path, low, f"a deviation of 0 ignores {resource}: left out")
        else:
            low, high = _apart(translation, low, high, low_path, high_path, deviation=pair.deviation)
            lows[resource] = Setting(value=number(low), origin=low_path)
            highs[resource] = Setting(value=number(high), origin=high_path)
    return lows, highs


def _apart(
    translation: Translation, low: float, high: float, low_path: str, high_path: str, *, deviation: bool
) -> tuple[float, float]:
    for path, value in ((low_path, low), (high_path, high)):
        if value > 100:
            translation.remark("changed", path, value, "a load above 100% of a node is not planned: 100")
    low, high = min(low, 100.0), min(high, 100.0)
    if deviation:
        if low + high < MIN_GAP:
            translation.remark("changed", high_path, high, f"{MIN_GAP - low:g}: {_GAP}")
            high = MIN_GAP - low
    elif low + MIN_GAP > high:
        if high < MIN_GAP:
            translation.remark("changed", high_path, high, f"{MIN_GAP:g}: {_GAP}")
            high = MIN_GAP
        translation.remark("changed", low_path, low, f"{high - MIN_GAP:g}: {_GAP}")
        low = high - MIN_GAP
    return low, high


def limit_production(
    translation: Translation, whole: Mapping[str, Any], production: dict[str, Any], low: dict[str, Any]
) -> None:
    """Lower the thresholds of production pods (`production`, `low`) to at most those of the whole node."""
    for resource, setting in list(production.items()):
        whole_threshold = whole.get(resource)
        if whole_threshold is None or setting.value <= whole_threshold.value:
            continue
        translation.remark(
            "changed",
            setting.origin,
            setting.value,
            f"{whole_threshold.value:g}, as the whole node: it could not be reached",
        )
        production[resource] = Setting(value=whole_threshold.value, origin=setting.origin)
        if low[resource].value + MIN_GAP > whole_threshold.value:
            lowered = number(whole_threshold.value - MIN_GAP)
            translation.remark("changed", low[resource].origin, low[resource].value, f"{lowered:g}: {_GAP}")
            low[resource] = Setting(value=lowered, origin=low[resource].origin)
