"""What the page on metrics tells people to set can be set."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.settings import SOURCES, CollectorSettings, PrometheusSettings
from equipoise.runtime.configuration import validate_document

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
HEAD = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL))
def test_every_configuration_on_the_page_is_valid(block: str) -> None:
    """As strictly as `equipoise config validate` looks at it. A block that names the file is a whole file."""
    validate_document(block if block.startswith("# equipoise.yaml\n") else HEAD + block, SERVICE_SETTINGS)


@pytest.mark.parametrize("name", [*SOURCES, *PROFILES])
def test_the_page_tells_of_every_source_and_profile(name: str) -> None:
    """And of no file that there is not."""
    assert re.search(rf"\b{name}\b", PAGE)


def test_the_files_that_the_page_names_are_there() -> None:
    """Rules to be applied."""
    named = set(re.findall(r"k8s/[\w/.-]+", PAGE))

    assert named
    assert not [path for path in named if not (ROOT / path).is_file()]


def test_the_tables_and_the_settings_know_the_same_names() -> None:
    """One that only one of them knows could not be chosen, or would end the collector."""
    assert set(get_args(get_type_hints(CollectorSettings)["source"])) == SOURCES.keys()
    assert set(get_args(get_type_hints(PrometheusSettings)["profile"])) == PROFILES.keys()
