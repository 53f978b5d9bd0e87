"""The program as a person meets it: what it prints, where, and how it ends."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from cli.programs import PROGRAM
from click.testing import CliRunner, Result

from equipoise.cli.main import main
from equipoise.runtime.kubernetes.client import KubeError

HEADER = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
HEAVY = (
    "aiohttp",
    "cryptography",
    "nats",
    "numpy",
    "prometheus_api_client",
    "kubernetes_asyncio",
    "rich",
    "yaml",
    "structlog",
)


def invoke(*arguments: str, text: str = "", **variables: str) -> Result:
    return CliRunner(env={"KUBECONFIG": None, "EQUIPOISE_CONFIG": None, **variables}).invoke(
        main, arguments, input=text
    )  # fmt: skip


def test_the_program_starts_without_what_only_some_commands_need() -> None:
    """`--help`, `version` and completion answer at once."""
    script = f"import sys, equipoise.cli.main; print([name for name in {HEAVY} if name in sys.modules])"

    assert "[]\n" == subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_it_is_kubectl_s_plugin_too() -> None:
    """Installed under both names, and under the second it calls itself as kubectl calls it."""
    names = {script.name for script in entry_points(group="console_scripts", module="equipoise.cli.main")}
    shown = CliRunner().invoke(main, ["--help"], prog_name="kubectl-equipoise").output

    assert {"equipoise", "kubectl-equipoise"} == names
    assert shown.startswith("Usage: kubectl equipoise ")


def test_the_version_is_for_people_and_for_programs() -> None:
    """The same number."""
    text, encoded = invoke("version").stdout, invoke("version", "-o", "json").stdout

    assert f"equipoise {json.loads(encoded)['version']}\n" == text


def test_the_defaults_are_a_valid_configuration() -> None:
    """What `defaults` prints, `validate` takes, from a pipe."""
    defaults = invoke("config", "defaults")
    checked = invoke("config", "validate", "-", text=defaults.stdout)

    assert (0, 0, "valid\n") == (defaults.exit_code, checked.exit_code, checked.stdout)
    assert "scorer" in json.loads(invoke("config", "schema").stdout)["properties"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER + "binder: {evict: maybe}", 'binder.evict: "maybe" is not allowed: expected bool'),
        (HEADER + "scorer: {lsten: x}", "scorer.lsten: there is no such setting: did you mean listen?"),
        (HEADER + "descheduler: {interval: soon}", "descheduler.interval:"),
        ("a: [", "line 1, column 5"),
        ("kind: Pod", "apiVersion: null is not allowed: expected equipoise.dev/v1alpha1"),
    ],
)
def test_a_wrong_configuration_is_said_with_path_value_and_what_is_allowed(text: str, said: str) -> None:
    """On stderr, with exit code 2 and no traceback."""
    result = invoke("config", "validate", "-", text=text)

    assert (2, "") == (result.exit_code, result.stdout)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


A_CONTEXT = {"name": "home", "context": {"cluster": "castle", "user": "me"}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nobody"], "'nobody' is not one of"),
        (["up"], "Missing option '--prometheus'"),
        (["up", "--prometheus", "http://p:9090", "--yes", "home"], "--yes answers the question of --evict"),
        (["up", "--prometheus", "http://p:9090", "--kubeconfig", "/nowhere"], "there is no kubeconfig at /nowhere"),
        (["up", "--prometheus", "http://p:9090", "--context", "away"], "no context 'away' (it has: home)"),
        (["up", "--prometheus", "prometheus"], "collector.prometheus"),
        (["pause", "--context", "away"], "no context 'away' (it has: home)"),
        (["tap", "nonsense"], "nothing is ever said on 'nonsense'"),
        (["tap", "--nats", "http://x"], "url must begin with nats://"),
        (["explain", "pod", "web-1"], "'web-1' names no pod: NAMESPACE/NAME"),
        (["explain", "pod", "a/b", "--nats", "http://x"], "url must begin with nats://"),
        (["explain", "node"], "Missing argument 'NAME'"),
        (["tap", "--user", "tap"], "user and --password-file belong together"),
        (["testbed", "up", "--name", "a/b"], "a name is letters, digits and -"),
    ],
)
def test_a_mistake_is_a_sentence(arguments: list[str], said: str, tmp_path: Path) -> None:
    """Exit code 2: what was asked cannot be done as it was asked."""
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps({"current-context": "home", "contexts": [A_CONTEXT], "clusters": []}))
    result = invoke(*arguments, KUBECONFIG=str(file))

    assert 2 == result.exit_code, result.output
    assert said in result.stderr
    assert "" == result.stdout


def test_of_several_kubeconfigs_the_first_that_knows_wins(tmp_path: Path) -> None:
    """As kubectl merges the files of KUBECONFIG; those that are missing do no harm."""
    from equipoise.cli.kubeconfig import chosen_context

    def a_file(name: str, **content: object) -> str:
        (tmp_path / name).write_text(json.dumps(content))
        return str(tmp_path / name)

    castle = {"name": "castle", "cluster": {"server": "https://castle:6443"}}
    one = a_file("one", contexts=[A_CONTEXT])
    two = a_file("two", **{"current-context": "home"}, clusters=[castle], contexts=[{"name": "home", "context": {}}])
    chosen = chosen_context(f"{one}:{tmp_path / 'missing'}:{two}", None)

    assert ("home", "castle", "https://castle:6443") == (chosen.name, chosen.cluster, chosen.server)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            KubeError(403, "Forbidden", "get configmaps x/y: no"),
            1,
            "equipoise: 403 Forbidden: get configmaps x/y: no\n",
        ),
        (ExceptionGroup("tasks", [KubeError(0, "Timeout", "late")]), 1, "equipoise: no answer Timeout: late\n"),
        (FileNotFoundError(2, "No such file or directory", "x.yaml"), 1, "equipoise: x.yaml: No such file"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_fails_outside_is_a_sentence_too(error: BaseException, code: int, said: str) -> None:
    """Exit code 1; Ctrl-C is 130 and says nothing."""

    @main.command("fails", hidden=True)
    def fails() -> None:
        raise error

    try:
        result = CliRunner().invoke(main, ["fails"])
    finally:
        del main.commands["fails"]

    assert code == result.exit_code
    assert result.stderr.startswith(said)
    assert "Traceback" not in result.stderr


def test_completion_knows_the_commands() -> None:
    """The printed script asks the program itself, which answers with names."""
    script = invoke("completion", "bash").stdout
    asked = {"_EQUIPOISE_COMPLETE": "bash_complete", "COMP_WORDS": "equipoise pa", "COMP_CWORD": "1"}
    answer = subprocess.run(PROGRAM, env={**os.environ, **asked}, capture_output=True, text=True, check=False)

    assert "complete -o nosort -F _equipoise_completion equipoise" in script
    assert "plain,pause\n" == answer.stdout
