"""docs/glossary.md: its terms and the settings that it names."""

import re
from typing import Any, get_args

import pytest
import yaml
from click.testing import CliRunner
from deployment.base import ROOT

from equipoise.cli.main import main
from equipoise.contracts.colocation.profile import ProfileBand
from equipoise.contracts.configuration.section_names import SECTIONS

TEXT = (ROOT / "docs" / "glossary.md").read_text()
TERMS = [term.replace("`", "") for term in re.findall(r"^\| (.+?) \| .+ \|$", TEXT, re.MULTILINE)][1:]
SHARED = ("load", "thresholds", "protection", "namespaces", "nats", "kubernetes")
SETTINGS = sorted(set(re.findall(rf"`((?:{'|'.join((*SECTIONS, *SHARED))})(?:\.\w+)+)`", TEXT)))


@pytest.fixture(scope="module")
def defaults() -> dict[str, Any]:
    """The configuration as `equipoise config defaults` prints it."""
    document: dict[str, Any] = yaml.safe_load(CliRunner().invoke(main, ["config", "defaults"]).stdout)
    return document


def test_the_terms_are_in_alphabetical_order_and_defined_once() -> None:
    names = [term.lower().replace("-", " ") for term in TERMS]

    assert names == sorted(set(names))


@pytest.mark.parametrize(
    "term",
    [*get_args(ProfileBand), "band", "reclaimed", "lasts", "grade", "hint", "surge", "campaign", *SECTIONS[-2:]],
)
def test_the_glossary_defines_the_term(term: str) -> None:
    assert term in TERMS


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_that_the_glossary_names_exists(setting: str, defaults: dict[str, Any]) -> None:
    value: Any = defaults
    for name in setting.split("."):
        assert name in value, f"{setting} is no setting"
        value = value[name]
