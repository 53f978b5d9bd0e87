"""Which plugins and which profiles `equipoise scheduler` runs with."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from equipoise.cli.main import main
from equipoise.scheduler.settings import scheduler_configuration
from equipoise.scheduling.plugin_loading import load_plugins
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.settings.document import InvalidConfiguration

PLUGIN = """
class OddNodes:
    name = "OddNodes"
    def score_node(self, state, pod, snapshot, row):
        return 100 * (row % 2)

class Configured:
    name = "Configured"
    def __init__(self, arguments, handle):
        self.arguments = arguments

class Nameless: ...
"""

PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 20
profiles:
- plugins: {score: {enabled: [{name: OddNodes, weight: 3}]}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "odd_nodes.py"
    found.write_text(PLUGIN)
    return found


def test_a_plugin_of_a_file_and_one_of_a_module(file: Path) -> None:
    module = "equipoise.scheduling.plugins.node_name:NodeName"
    found = load_plugins([f"{file}:OddNodes", f"{file}:Configured", module])

    assert ["OddNodes", "Configured", "NodeName"] == list(found)
    assert {"a": 1} == found["Configured"]({"a": 1}, Handle()).arguments  # type: ignore[attr-defined]
    assert "OddNodes" == found["OddNodes"](None, Handle()).name


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("{file}:Missing", "has no class Missing"),
        ("{file}:Nameless", "needs an attribute `name`"),
        ("{file}", "expected MODULE:CLASS"),
        ("/nowhere.py:A", "FileNotFoundError"),
        ("no.such.module:A", "ModuleNotFoundError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded(file: Path, place: str, why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=why):
        load_plugins([place.format(file=file)])


def test_without_a_file_there_is_one_profile_with_every_plugin(file: Path) -> None:
    configuration = scheduler_configuration(None, load_plugins([f"{file}:OddNodes"]), load=False)

    (profile,) = configuration.profiles
    assert "equipoise-scheduler" == profile.scheduler_name
    assert "OddNodes" in [plugin.name for plugin in profile.plugins["multiPoint"].enabled]


def test_a_profile_without_a_name_has_that_of_this_scheduler(file: Path) -> None:
    configuration = scheduler_configuration(PROFILE, load_plugins([f"{file}:OddNodes"]), load=False)

    assert ["equipoise-scheduler"] == [profile.scheduler_name for profile in configuration.profiles]
    assert 20.0 == configuration.max_backoff


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{profiles: [{schedulerName: default-scheduler}]", "schedulerName of kube-scheduler"),
        ("{profiles: [{plugins: {score: {enabled: [{name: OddNode}]}}}]", "OddNode"),
        ("[", "YAML"),
    ],
)
def test_a_configuration_that_cannot_be_used(text: str, why: str) -> None:
    header = ", apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
    with pytest.raises(InvalidConfiguration, match=why):
        scheduler_configuration(text + header, {}, load=False)


@pytest.mark.parametrize(
    "text", ["", "# nothing", "node-1", "3", "[1]", "&a [*a]", "{profiles: &a [*a]}", "{profiles: {2026-11-27: 1}}"]
)
def test_a_document_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfiguration):
        scheduler_configuration(text, {}, load=False)


def test_help_says_that_it_is_experimental() -> None:
    result = CliRunner().invoke(main, ["scheduler", "--help"])

    assert 0 == result.exit_code
    assert "(experimental)" in result.output


def test_an_invalid_configuration_ends_the_command_with_2(tmp_path: Path) -> None:
    invalid = tmp_path / "config.yaml"
    invalid.write_text("kind: Pod")
    result = CliRunner().invoke(main, ["scheduler", "--config", str(invalid)])

    assert 2 == result.exit_code
    assert "kind" in result.output
