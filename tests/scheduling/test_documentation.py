"""What a reader copies from docs/scheduling.md works."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scheduling.pods import a_node, a_pod

from equipoise.scheduling.configuration import read_configuration
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.settings.document import InvalidConfiguration

TEXT = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_plugin_of_the_tutorial_places_pods(capsys: pytest.CaptureFixture[str]) -> None:
    exec(BLOCKS[1], {})

    *first, last = capsys.readouterr().out.split()
    assert first == ["b"] * 7
    assert last in ("a", "c")


def test_both_forms_of_the_plugin_score_alike() -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS[1], names)
    exec(BLOCKS[2], names)
    nodes = [a_node("a", labels={"power": "renewable"}), a_node("b"), a_node("c", labels={"power": "renewable"})]
    snapshot = ClusterSnapshot(nodes, [a_pod("old", {"cpu": "3500m"}, node_name="c")])
    each, arrays = names["RenewableFirst"](), names["RenewableFirstInArrays"]()

    together = arrays.score(CycleState(), a_pod(), snapshot, snapshot.rows)

    assert together.tolist() == [each.score_node(CycleState(), a_pod(), snapshot, row) for row in snapshot.rows]
    assert together.tolist() == [100, 0, 0]
    assert np.issubdtype(together.dtype, np.integer)


def test_the_question_to_a_cluster_prints_a_node_or_the_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kubectl` is replaced by what it prints."""
    small = b"""{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "small"},
        "status": {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "110"}}}]}"""
    monkeypatch.setattr("subprocess.check_output", lambda command: small)
    exec(BLOCKS[0], {})
    assert "0/1 nodes are available: 1 Insufficient cpu." in capsys.readouterr().out

    monkeypatch.setattr("subprocess.check_output", lambda command: small.replace(b'"cpu": "1"', b'"cpu": "8"'))
    exec(BLOCKS[0], {})
    assert capsys.readouterr().out == "small\n"


def test_the_error_of_the_configuration_is_as_shown() -> None:
    [shown] = re.findall(r"```\n(profiles\[0\].*)\n```", TEXT)
    args = {"hardPodAffinityWeight": 500}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "InterPodAffinity", "args": args}]}],
    }
    with pytest.raises(InvalidConfiguration) as error:
        read_configuration(document)

    assert str(error.value) == shown
