"""`equipoise pause` and `equipoise resume`: what they claim, and the confirmation."""

import asyncio
import json
import os
import pty

from binder.ledgers import a_ledger
from cli.http_clusters import LEDGER_PATH, OWN, HttpCluster
from cli.programs import PROGRAM

NOT_INSTALLED = f"namespace {OWN} does not exist: Equipoise is not installed in this cluster"


async def test_pause_names_the_cluster(cluster: HttpCluster) -> None:
    """Context and server of the kubeconfig, in text and JSON."""
    cluster.put_ledger(a_ledger())
    code, output = await cluster.run("pause", "--why", "a release")
    assert code == 0, output
    assert output == (
        f"cluster: castle {cluster.url} (context home)\n"
        "paused: within 5 s nothing more is evicted, until `equipoise resume`\n"
    )
    assert (cluster.ledger.paused, cluster.ledger.pause_reason) == (True, "a release")
    code, encoded, errors = await cluster.run_split("pause", "-o", "json")
    assert (code, errors) == (0, "")
    assert json.loads(encoded)["result"] == "paused"
    assert json.loads(encoded)["cluster"] == {"context": "home", "cluster": "castle", "server": cluster.url}


async def test_pause_without_permission_is_not_paused(cluster: HttpCluster) -> None:
    """Pods may be evicted at this moment: exit code 1, in text and JSON."""
    cluster.put_ledger(a_ledger())
    cluster.refused.add(LEDGER_PATH)
    code, output = await cluster.run("pause")
    assert code == 1
    assert f"NOT paused: ConfigMap {OWN}/equipoise-ledger may not be read" in output
    assert "nothing" not in output
    code, encoded, errors = await cluster.run_split("pause", "-o", "json")
    assert code == 1
    assert json.loads(encoded)["result"] == "not paused"
    assert "NOT paused" in errors


async def test_pause_without_a_ledger_is_not_paused(cluster: HttpCluster) -> None:
    """Setup would create a ledger that allows evictions."""
    cluster.put_namespace()
    code, output = await cluster.run("pause")
    assert code == 1
    assert "NOT paused: ConfigMap" in output
    assert "binders evict nothing without a ledger" in output


async def test_a_write_without_a_definite_response_is_unknown(cluster: HttpCluster) -> None:
    """It may have been executed."""
    cluster.put_ledger(a_ledger())
    cluster.broken.add(("PUT", LEDGER_PATH))
    code, output = await cluster.run("pause")
    assert code == 1
    assert "UNKNOWN whether evictions are paused: 500" in output


async def test_a_cluster_without_equipoise_is_named_as_such(cluster: HttpCluster) -> None:
    """By pause and by resume."""
    code, output = await cluster.run("pause")
    assert code == 1
    assert f"NOT paused: {NOT_INSTALLED}" in output
    code, output = await cluster.run("resume", "--yes")
    assert code == 1
    assert f"NOT resumed: {NOT_INSTALLED}" in output


async def test_resume_creates_a_ledger_in_an_existing_namespace(cluster: HttpCluster) -> None:
    cluster.put_namespace()
    code, output = await cluster.run("resume", "--yes")
    assert code == 0, output
    assert "resumed with a new ledger" in output


async def test_resume_without_a_terminal_needs_yes(cluster: HttpCluster) -> None:
    """Exit code 2; nothing is written."""
    cluster.put_ledger(a_ledger(paused=True))
    code, output = await cluster.run("resume")
    assert code == 2
    assert "not resumed: the command needs a confirmation, and there is no terminal: use --yes" in output
    assert cluster.ledger.paused
    code, output = await cluster.run("resume", "--yes")
    assert (code, output.splitlines()[-1]) == (0, "resumed")
    assert not cluster.ledger.paused


async def test_resume_prompts_on_a_terminal(cluster: HttpCluster) -> None:
    """The question names the cluster; the default is no."""
    cluster.put_ledger(a_ledger(paused=True))
    for answer, expected in (("\n", 1), ("n\n", 1), ("y\n", 0)):
        assert cluster.ledger.paused
        code, output = await on_terminal(cluster, answer, "resume")
        assert code == expected, output
        assert f"Allow evictions in cluster castle {cluster.url} (context home)? [y/N]" in output
    assert not cluster.ledger.paused


async def on_terminal(cluster: HttpCluster, answer: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command whose standard input is a terminal."""
    ours, theirs = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *arguments,
            stdin=theirs,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(cluster.file)},
        )
        os.write(ours, answer.encode())
        async with asyncio.timeout(60):
            output, _ = await process.communicate()
    finally:
        os.close(ours)
        os.close(theirs)
    assert process.returncode is not None
    return process.returncode, output.decode()
