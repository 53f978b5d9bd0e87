"""What kubernetes-asyncio has for credentials is imported alone."""

import json
import subprocess
import sys
from typing import Any

LOADED = """
import json, sys
from equipoise.runtime.kubernetes.credential_loaders import import_credential_loaders
loaders = import_credential_loaders()
again = import_credential_loaders()
loaders.InClusterConfigLoader, loaders.load_kube_config
names = [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
"""


def loaded(*lines: str) -> Any:
    """What the last line prints as JSON, in a program of its own."""
    program = "\n".join([LOADED, *lines])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    return json.loads(done.stdout)


def test_the_generated_clients_are_not_imported() -> None:
    """They are 850 modules, 36 MB in each process."""
    names = loaded("print(json.dumps(names))")

    assert "kubernetes_asyncio.config.kube_config" in names
    assert len(names) < 20, names
    assert not {name for name in names if ".api" in name or ".models" in name}


def test_a_second_import_has_the_same_loaders() -> None:
    assert loaded("print(json.dumps([each is other for each, other in zip(loaders, again)]))") == [True] * 3


def test_kubernetes_asyncio_can_be_imported_as_a_whole_afterwards() -> None:
    """By a strategy or policy of somebody else in the same process."""
    assert loaded(
        "import kubernetes_asyncio",
        "from kubernetes_asyncio import client, config",
        "same = client.Configuration is loaders.Configuration, config.load_kube_config is loaders.load_kube_config",
        "kubernetes_asyncio.client.CoreV1Api, kubernetes_asyncio.config.kube_config.KubeConfigLoader",
        "print(json.dumps(same))",
    ) == [True, True]


def test_a_whole_kubernetes_asyncio_that_is_imported_already_is_used() -> None:
    assert loaded(
        "for name in names: del sys.modules[name]",
        "import kubernetes_asyncio",
        "loaders = import_credential_loaders()",
        "print(json.dumps(loaders.Configuration is kubernetes_asyncio.client.Configuration))",
    )
