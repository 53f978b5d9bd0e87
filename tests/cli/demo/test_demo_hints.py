"""What the demo prints to connect to its cluster."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from equipoise.cli.demo.run import how_to_connect
from equipoise.cli.main import COMMANDS


def test_the_hints_can_be_pasted() -> None:
    """The program is on the PATH, and no command needs an option for NATS or its configuration."""
    cluster: Any = SimpleNamespace(
        kubeconfig="/d/kubeconfig", directory=Path("/d"), nats_url="nats://127.0.0.1:1", prometheus_url="http://p"
    )
    text = how_to_connect(cluster)
    assert Path(re.findall(r"export PATH=(.*):", text)[0]).joinpath("equipoise").exists()
    assert "export EQUIPOISE_CONFIG=/d/equipoise.yaml" in text
    assert "export EQUIPOISE_NATS__URL=nats://127.0.0.1:1" in text
    named = re.findall(r"^  equipoise (\w+)", text, flags=re.MULTILINE)
    assert {"status", "plan", "tap", "explain", "report", "doctor"} == set(named) <= set(COMMANDS)
