"""The shared sections check their values."""

import pytest

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, ResourceThresholds, Thresholds, Window


def a_window(name: str, seconds: float, refresh: float = 15) -> Window:
    return Window(name=name, length=Duration(seconds), refresh_period=Duration(refresh))


def test_the_defaults_are_valid_and_ordered() -> None:
    """The shortest window comes first, the longest is a day."""
    load = LoadSettings()
    assert (load.shortest.name, load.longest.name) == ("5m", "1d")


@pytest.mark.parametrize(
    "windows",
    [
        (),
        (a_window("1h", 3_600), a_window("5m", 300)),
        (a_window("5m", 300), a_window("5m", 600)),
        (a_window("0s", 0),),
        (a_window("5m", 300, refresh=0),),
    ],
    ids=["none", "wrong order", "same name", "no length", "no refresh"],
)
def test_invalid_windows_are_refused(windows: tuple[Window, ...]) -> None:
    """An empty list, a wrong order, repeated names and lengths of 0."""
    with pytest.raises(ValueError, match="window"):
        LoadSettings(windows=windows)


def test_the_lifetime_of_a_value_depends_on_its_refresh_period() -> None:
    """Rarely refreshed windows live for three periods, the others for the score freshness."""
    load = LoadSettings()
    assert [load.lifetime(window) for window in load.windows] == [180, 180, 360, 5_400]


def test_low_above_high_is_refused() -> None:
    """One service must not empty what the other fills."""
    with pytest.raises(ValueError, match=r"low\.cpu"):
        Thresholds(high=ResourceThresholds(cpu=40), low=ResourceThresholds(cpu=50))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"low": ResourceThresholds(cpu=61)}, r"low\.cpu \(61\) must be at least 5 points below high\.cpu \(65\)"),
        ({"high": ResourceThresholds(pods=50), "low": ResourceThresholds(pods=50)}, r"low\.pods"),
        (
            {"high": ResourceThresholds(pods=100), "low": ResourceThresholds(pods=100)},
            r"low\.pods and high\.pods are 100: to ignore pods, leave pods out of both",
        ),
        (
            {"prod_high": ResourceThresholds(cpu=40), "prod_low": ResourceThresholds(cpu=36)},
            r"prodLow\.cpu \(36\).*prodHigh\.cpu",
        ),
        ({"prod_high": ResourceThresholds(cpu=70)}, r"prodHigh\.cpu \(70\) must not be above high\.cpu \(65\)"),
    ],
)
def test_inconsistent_thresholds_are_refused(fields: dict[str, ResourceThresholds], text: str) -> None:
    """At least five points must be between low and high."""
    with pytest.raises(ValueError, match=text):
        Thresholds(**fields)


def test_a_single_threshold_needs_no_gap() -> None:
    assert Thresholds(
        high=ResourceThresholds(cpu=65), low=ResourceThresholds(memory=64), prod_low=ResourceThresholds(pods=90)
    ).high == ResourceThresholds(cpu=65)
    assert Thresholds(low=ResourceThresholds(cpu=60)).low.cpu == 60


def test_namespaces_are_included_or_excluded() -> None:
    """By default all except the system's and our own; both lists at once are an error."""
    assert Namespaces().allow("shop", "equipoise-system")
    assert not Namespaces().allow("equipoise-system", "equipoise-system")
    assert not Namespaces().allow("kube-system", "equipoise-system")
    assert Namespaces(include=("shop",)).allow("shop", "equipoise-system")
    assert not Namespaces(include=("shop",)).allow("bank", "equipoise-system")
    assert Namespaces(exclude=()).allow("kube-system", "equipoise-system")
    with pytest.raises(ValueError, match="not both"):
        Namespaces(include=("a",), exclude=("b",))
