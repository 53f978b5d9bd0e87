"""Commands, output, error messages and exit codes of the program."""

import asyncio
import io
import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.http_clusters import HttpCluster
from cli.programs import PROGRAM, invoke
from click.testing import CliRunner

from equipoise import cli as package
from equipoise.cli.commands.completion import complete_for_kubectl
from equipoise.cli.commands.config import COMMON
from equipoise.cli.main import COMMANDS, FORMER, OTHERS, TASKS, main
from equipoise.cli.terminal import VisibleConsole
from equipoise.runtime.kubernetes.client import KubeError

CLI = Path(package.__file__).parent
HEADER = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
MOST_SHOWN = 16
"""A dozen, those that install and remove Equipoise, and two that show what fewer nodes or a rebalance would give."""

HEAVY = (
    "aiohttp",
    "cryptography",
    "nats",
    "numpy",
    "prometheus_api_client",
    "kubernetes_asyncio",
    "rich",
    "textual",
    "yaml",
    "structlog",
)


def test_help_and_completion_do_not_import_large_libraries() -> None:
    """Declarations of commands import nothing that only their work needs: help and completion respond at once."""
    script = f"""
import sys
from equipoise.cli.commands.completion import complete_for_kubectl
from equipoise.cli.main import COMMANDS, OTHERS, TASKS, main
for name in COMMANDS:
    assert main.get_command(None, name).name == name
print([name for name in {HEAVY} if name in sys.modules])
"""

    assert "[]\n" == subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_the_help_has_the_commands_of_each_task_and_names_the_others() -> None:
    """Twenty-seven commands in one list were a search; each task has its few, with the first sentence of each."""
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    described = [line.split() for line in shown.splitlines() if line.startswith("  ") and line[2].isalpha()]
    sections = [line.removesuffix(":") for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    tasks = [name for names in TASKS.values() for name in names]
    others = " ".join(shown.partition("Other commands")[2].partition(":")[2].partition("Exit codes")[0].split())

    assert [line[0] for line in described if line[0] in tasks] == tasks
    assert all(len(line) > 2 for line in described if line[0] in tasks)
    assert set(TASKS) <= set(sections)
    assert others == ", ".join(OTHERS)
    assert len(tasks) <= MOST_SHOWN
    assert sorted([*tasks, *OTHERS]) == list(COMMANDS)
    assert not set(tasks) & set(OTHERS)


def test_the_program_of_a_command_lies_in_one_place() -> None:
    """In the folder of small commands, or in a folder of its own. Of two, the one in its own folder would never run."""
    places = {
        name: [place for place in (f"commands/{name}.py", f"{name}/command.py") if (CLI / place).exists()]
        for name in COMMANDS
    }
    assert {} == {name: found for name, found in places.items() if len(found) != 1}


@pytest.mark.parametrize("former", FORMER)
def test_a_former_name_of_a_command_works_and_is_not_listed(former: str) -> None:
    listed, old, new = (invoke(*words, "--help").stdout for words in ((), (former,), FORMER[former]))
    usages = f"Usage: main {former} ", f"Usage: main {' '.join(FORMER[former])} "

    assert former not in listed.split()
    assert [shown.startswith(usage) for shown, usage in zip((old, new), usages, strict=True)] == [True, True]
    assert old.partition("\n")[2] == new.partition("\n")[2]


def test_it_is_a_kubectl_plugin() -> None:
    """It is installed under both names; as a plugin its usage begins with `kubectl equipoise`."""
    names = {script.name for script in entry_points(group="console_scripts", module="equipoise.cli.main")}
    shown = CliRunner().invoke(main, ["--help"], prog_name="kubectl-equipoise").output

    assert {"equipoise", "kubectl-equipoise"} == names
    assert shown.startswith("Usage: kubectl equipoise ")


def test_version_prints_text_and_json() -> None:
    """Both have the same version, and so has the option."""
    text, encoded = invoke("version").stdout, invoke("version", "-o", "json").stdout

    assert f"equipoise {json.loads(encoded)['version']}\n" == text
    assert text == invoke("--version").stdout


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize("command", ["nodes --watch", "rebalance --target-spread", "lab record --days"])
def test_a_number_that_is_not_finite_is_refused(command: str, number: str) -> None:
    """A command that waits for `nan` seconds repeats without a pause."""
    result = invoke(*command.split(), number)
    assert 2 == result.exit_code
    assert "not a finite number" in result.output or "not in the range" in result.output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [("config", "defaults"), ("version",)])
def test_output_that_cannot_be_written_is_an_error(command: tuple[str, ...]) -> None:
    """Short output, which is written at the end, too."""
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([*PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (1, "Error: the output cannot be written: No space left on device\n") == (run.returncode, run.stderr)


def test_a_table_whose_reader_has_ended_is_no_failure() -> None:
    """As `| head` does with it; text and JSON end with the same exit code."""

    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        VisibleConsole(file=Closed()).print("node-a")


@pytest.mark.parametrize(("encoding", "written"), [("ascii", "\\u2026"), ("latin-1", "\\u2026"), ("utf-8", "…")])
def test_output_is_written_in_any_encoding(encoding: str, written: str) -> None:
    """Characters that it does not have are escaped, as JSON does it."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    run = subprocess.run([*PROGRAM, "config", "defaults"], capture_output=True, env=environment, check=True)
    assert written in run.stdout.decode(encoding)


def test_the_defaults_are_a_valid_configuration() -> None:
    """`validate` accepts the output of `defaults` from a pipe."""
    defaults = invoke("config", "defaults")
    checked = invoke("config", "validate", "-", text=defaults.stdout)

    assert (0, 0, "valid\n") == (defaults.exit_code, checked.exit_code, checked.stdout)
    assert "scorer" in json.loads(invoke("config", "schema").stdout)["properties"]


def test_the_settings_that_matter_first_are_few_and_documented() -> None:
    """All of them exist, are a valid document with explanations, and the page has the same list."""
    common = invoke("config", "defaults", "--common").stdout
    every = yaml.safe_load(invoke("config", "defaults").stdout)
    documented = (Path(__file__).parents[2] / "docs" / "operate.md").read_text().partition("| setting | decides |")[2]
    rows = documented.partition("\n\n")[0].splitlines()[2:]
    named = [name for row in rows for name in re.findall(r"`([a-z]\w*(?:\.\w+)*)`", row.split("|")[1])]

    assert sorted(named) == sorted(COMMON)
    assert invoke("config", "validate", "-", text=common).exit_code == 0
    assert "# false: every eviction is a dry run" in common
    assert "scorer:" not in common
    for path in COMMON:
        expected, found = every, yaml.safe_load(common)
        for name in path.split("."):
            expected, found = expected[name], found[name]
        assert expected == found, path
    assert len(common.splitlines()) < len(invoke("config", "defaults").stdout.splitlines()) / 5


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (HEADER + "binder: {evict: maybe}", 'binder.evict: "maybe" is not allowed: expected bool'),
        (HEADER + "scorer: {lsten: x}", "scorer.lsten: there is no such setting: did you mean listen?"),
        *(
            (
                HEADER + f"{service}: {{hints: {{enabled: true}}}}",
                f"{service}.hints.enabled: there is no such setting any more: use placement.hints",
            )
            for service in ("annotator", "scorer")
        ),
        (
            HEADER + "thresholds: {high: {gpu: 80}}",
            "allowed are cpu, memory, pods. Of a resource of load.resources it is thresholds.resources.gpu.high",
        ),
        (HEADER + "descheduler: {interval: soon}", "descheduler.interval:"),
        ("a: [", "line 1, column 5"),
        ("kind: Pod", 'kind: "Pod" is not allowed: expected EquipoiseConfiguration'),
        (
            "kind: Pod\nbinder: {evict: maybe}",
            "apiVersion: is missing: add the line `apiVersion: equipoise.dev/",
        ),
        ("kind: Pod\nbinder: {evict: maybe}", 'binder.evict: "maybe" is not allowed: expected bool'),
        (HEADER + "scorer: {policy: {name: profil}}", "did you mean profile? expected "),
        (
            HEADER + "binder: {limits: {evictionsPerCluster: {max: 1 %}}}",
            "expected a percentage such as 1% (",
        ),
    ],
)
def test_an_invalid_configuration_is_reported_with_path_value_and_what_is_allowed(text: str, error: str) -> None:
    """On stderr, with exit code 2 and no traceback."""
    result = invoke("config", "validate", "-", text=text)

    assert (2, "") == (result.exit_code, result.stdout)
    assert error in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "command", [("nodes",), ("pods",), ("report",), ("doctor",), ("up",), ("lab", "record", "--out", "week")]
)
@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://prometheus", "", "http://prometheus:99999", "http://[::1"])
def test_an_invalid_url_of_prometheus_is_reported_with_the_form_that_it_must_have(
    command: tuple[str, ...], url: str
) -> None:
    """On stderr, with exit code 2 and no traceback, before anything is read."""
    result = invoke(*command, "--prometheus", url)

    assert (2, "") == (result.exit_code, result.stdout)
    assert f"'--prometheus': url {url!r} must have the form http://prometheus:9090" in result.stderr


OPEN_EXTENDER = "scorer: {listen: ':8888', extender: {allowUnauthenticated: true}}"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("nats: {url: nats://nats:4222}", "nats://nats:4222: messages and passwords are sent"),
        (OPEN_EXTENDER, "scorer: the extender at :8888 answers anyone"),
        ("nats: {url: tls://nats:4222}", ""),
        ("nats: {url: nats://127.0.0.1:4222}", ""),
    ],
)
def test_a_configuration_that_admits_others_is_valid_with_a_warning(text: str, warning: str) -> None:
    """The exit code is 0: it may be intended, for example with an encrypted network."""
    result = invoke("config", "validate", "-", text=HEADER + text)

    assert (0, "valid\n") == (result.exit_code, result.stdout)
    assert (f"warning: {warning}" in result.stderr) if warning else ("" == result.stderr)


A_CONTEXT = {"name": "home", "context": {"cluster": "castle", "user": "me"}}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["run", "nobody"], "'nobody' is not one of"),
        (["up", "--prometheus", "http://p:9090", "--yes", "home"], "--yes confirms --evict"),
        (
            ["up", "--prometheus", "http://p:9090", "--kubeconfig", "/nowhere"],
            "no kubeconfig at /nowhere: use --kubeconfig",
        ),
        (["up", "--prometheus", "http://p:9090", "--context", "away"], "no context 'away' (it has: home)"),
        (["up", "--prometheus", "prometheus"], "must have the form http://prometheus:9090"),
        (["pause", "--context", "away"], "no context 'away' (it has: home)"),
        (["tap", "nonsense"], "no service publishes on 'nonsense'"),
        (["tap", "--nats", "http://x"], "url must begin with nats://"),
        (["explain", "pod", "web-1"], "'web-1' is not a pod: use NAMESPACE/NAME"),
        (["explain", "pod", "a/b", "--nats", "http://x"], "url must begin with nats://"),
        (["explain", "node"], "Missing argument 'NAME'"),
        (["tap", "--user", "tap"], "--user and --password-file belong together"),
        (["testbed", "up", "--name", "a/b"], "a name is letters, digits and -"),
    ],
)
def test_invalid_input_is_reported_in_one_sentence(arguments: list[str], error: str, tmp_path: Path) -> None:
    """On stderr, with exit code 2."""
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps({"current-context": "home", "contexts": [A_CONTEXT], "clusters": []}))
    result = invoke(*arguments, KUBECONFIG=str(file))

    assert 2 == result.exit_code, result.output
    assert error in result.stderr
    assert "" == result.stdout


@pytest.mark.parametrize("impersonated", [{"as": "viewer"}, {"as-groups": ["viewers"]}, {"as-uid": "7"}])
def test_a_context_that_is_for_another_user_is_refused(impersonated: dict[str, Any], tmp_path: Path) -> None:
    """kubectl sends its requests for that user. Without it, they would have more permissions than it has."""
    file = tmp_path / "kubeconfig"
    context = {"name": "home", "context": {"cluster": "castle", "user": "me"}}
    users = [{"name": "me", "user": {"token": "t", **impersonated}}]
    file.write_text(json.dumps({"current-context": "home", "contexts": [context], "clusters": [], "users": users}))
    result = invoke("nodes", KUBECONFIG=str(file))

    assert (2, "") == (result.exit_code, result.stdout)
    assert f"context 'home' of {file} is for another user ({next(iter(impersonated))}: " in result.stderr


def test_the_first_of_several_kubeconfigs_that_has_a_name_wins(tmp_path: Path) -> None:
    """As kubectl merges the files of KUBECONFIG; missing files are ignored."""
    from equipoise.cli.cluster_access.kubeconfig import chosen_context

    def a_file(name: str, **content: object) -> str:
        (tmp_path / name).write_text(json.dumps(content))
        return str(tmp_path / name)

    castle = {"name": "castle", "cluster": {"server": "https://castle:6443"}}
    one = a_file("one", contexts=[A_CONTEXT])
    two = a_file("two", **{"current-context": "home"}, clusters=[castle], contexts=[{"name": "home", "context": {}}])
    chosen = chosen_context(f"{one}:{tmp_path / 'missing'}:{two}", None)

    assert ("home", "castle", "https://castle:6443") == (chosen.name, chosen.cluster, chosen.server)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            KubeError(403, "Forbidden", "get configmaps x/y: no"),
            1,
            "Error: 403 Forbidden: get configmaps x/y: no\n",
        ),
        (ExceptionGroup("tasks", [KubeError(0, "Timeout", "late")]), 1, "Error: late\n"),
        (FileNotFoundError(2, "No such file or directory", "x.yaml"), 1, "Error: x.yaml: No such file"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_failures_are_reported_in_one_sentence(error: BaseException, code: int, message: str) -> None:
    """Exit code 1; Ctrl-C is 130 without a message."""

    @main.command("fails", hidden=True)
    def fails() -> None:
        raise error

    try:
        result = CliRunner().invoke(main, ["fails"])
    finally:
        del main.commands["fails"]

    assert code == result.exit_code
    assert result.stderr.startswith(message)
    assert "Traceback" not in result.stderr


def test_completion_completes_commands() -> None:
    """The printed script runs the program, which prints the names."""
    script = invoke("completion", "bash").stdout
    variables = {"_EQUIPOISE_COMPLETE": "bash_complete", "COMP_WORDS": "equipoise pa", "COMP_CWORD": "1"}
    completed = subprocess.run(PROGRAM, env={**os.environ, **variables}, capture_output=True, text=True, check=False)

    assert "complete -o nosort -F _equipoise_completion equipoise" in script
    assert "plain,pause\n" == completed.stdout


def test_the_summaries_of_commands_are_not_cut() -> None:
    """At 80 columns more than half of them once ended in dots."""
    shown = CliRunner().invoke(main, ["--help"], terminal_width=60).output
    assert "..." not in shown.partition("Options:")[2]
    assert "Check everything that Equipoise depends on, and print" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tap util", ["utilization"]),
        ("lab compare --policy prof", ["profile"]),
        ("explain n", ["node"]),
    ],
)
def test_kubectl_completes_names(words: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`kubectl_complete-equipoise` gets the words, and prints a line for each candidate and what kubectl does."""
    sys.argv, before = ["kubectl_complete-equipoise", *words.split()], sys.argv
    try:
        complete_for_kubectl()
    finally:
        sys.argv = before
    *candidates, directive = capsys.readouterr().out.splitlines()
    assert [each.partition("\t")[0].partition(".")[0] for each in candidates][:1] == expected
    assert directive == ":4"


async def test_pods_and_nodes_of_the_kubeconfig_are_completed(cluster: HttpCluster) -> None:
    """Without a cluster there is nothing to complete, and no error."""
    listed = [("shop", "web-1"), ("shop", "db-1"), ("bank", "web-2")]
    pods = [{"metadata": {"namespace": namespace, "name": name}} for namespace, name in listed]
    cluster.objects["/api/v1/pods"] = {"metadata": {}, "items": pods}
    cluster.objects["/api/v1/namespaces/shop/pods"] = {"metadata": {}, "items": pods[:2]}
    cluster.objects["/api/v1/nodes"] = {"metadata": {}, "items": [{"metadata": {"name": "node-a"}}]}

    async def completed(words: str, **variables: str) -> list[str]:
        script = "from equipoise.cli.commands.completion import complete_for_kubectl; complete_for_kubectl()"
        arguments = [each or "" for each in words.split(" ")]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, *arguments, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "KUBECONFIG": str(cluster.file), **variables},
        )  # fmt: skip
        output, _ = await process.communicate()
        return output.decode().splitlines()[:-1]

    async def names(words: str) -> list[str]:
        """The first that are found: on a busy machine a command may give up before the cluster responds."""
        async with asyncio.timeout(120.0):
            while not (found := await completed(words)):
                pass
        return found

    assert await names("explain pod ") == ["bank/web-2", "shop/db-1", "shop/web-1"]
    assert await names("explain pod shop/w") == ["shop/web-1"]
    assert await names("explain node n") == ["node-a"]
    assert await completed("explain node n", KUBECONFIG="/nowhere") == []
