"""The shared sections check what fits together."""

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
def test_windows_that_cannot_work_are_refused(windows: tuple[Window, ...]) -> None:
    """An empty list, a wrong order, repeated names and lengths of 0 are errors."""
    with pytest.raises(ValueError, match="window"):
        LoadSettings(windows=windows)


def test_a_value_lives_as_long_as_its_refresh_needs() -> None:
    """A window that is asked rarely lives for three of its periods, the others for the common life."""
    load = LoadSettings()
    assert [load.lifetime(window) for window in load.windows] == [180, 180, 360, 5_400]


def test_low_above_high_is_refused() -> None:
    """What one side fills the other must not empty."""
    with pytest.raises(ValueError, match=r"low\.cpu"):
        Thresholds(high=ResourceThresholds(cpu=40), low=ResourceThresholds(cpu=50))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"low": ResourceThresholds(cpu=61)}, r"low\.cpu \(61\) must be at least 5 points below high\.cpu \(65\)"),
        ({"high": ResourceThresholds(pods=50), "low": ResourceThresholds(pods=50)}, r"low\.pods"),
        (
            {"prod_high": ResourceThresholds(cpu=40), "prod_low": ResourceThresholds(cpu=36)},
            r"prodLow\.cpu \(36\).*prodHigh\.cpu",
        ),
        ({"prod_high": ResourceThresholds(cpu=70)}, r"prodHigh\.cpu \(70\) must not be above high\.cpu \(65\)"),
    ],
)
def test_marks_that_contradict_one_another_are_refused(fields: dict[str, ResourceThresholds], told: str) -> None:
    """Five points must lie between what is filled and what is emptied."""
    with pytest.raises(ValueError, match=told):
        Thresholds(**fields)


def test_a_mark_may_stand_alone() -> None:
    """One of two needs no gap."""
    assert Thresholds(
        high=ResourceThresholds(cpu=65), low=ResourceThresholds(memory=64), prod_low=ResourceThresholds(pods=90)
    ).high == ResourceThresholds(cpu=65)
    assert Thresholds(low=ResourceThresholds(cpu=60)).low.cpu == 60


def test_namespaces_are_included_or_excluded() -> None:
    """By default all but the system's and our own; include names the only ones; both is an error."""
    assert Namespaces().allow("shop", "equipoise-system")
    assert not Namespaces().allow("equipoise-system", "equipoise-system")
    assert not Namespaces().allow("kube-system", "equipoise-system")
    assert Namespaces(include=("shop",)).allow("shop", "equipoise-system")
    assert not Namespaces(include=("shop",)).allow("bank", "equipoise-system")
    assert Namespaces(exclude=()).allow("kube-system", "equipoise-system")
    with pytest.raises(ValueError, match="not both"):
        Namespaces(include=("a",), exclude=("b",))
