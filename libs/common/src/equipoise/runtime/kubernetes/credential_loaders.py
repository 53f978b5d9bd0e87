"""The loaders of kubernetes-asyncio for kubeconfigs and tokens, without the clients that it generates.

`import kubernetes_asyncio` imports the clients of all resources, 850 modules: 0.2 s of CPU time, seconds from a cold
disk, and 36 MB of memory in each process. Only its configuration is used, which takes 0.04 s and 3 MB.
"""

import importlib.util
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, NamedTuple

PACKAGES = ("kubernetes_asyncio", "kubernetes_asyncio.client")
"""The packages whose `__init__` imports the clients."""


class CredentialLoaders(NamedTuple):
    """What kubernetes-asyncio has for credentials. It has no types."""

    Configuration: Callable[[], Any]
    InClusterConfigLoader: Callable[..., Any]
    load_kube_config: Callable[..., Awaitable[Any]]


def import_credential_loaders() -> CredentialLoaders:
    """Imports them. A later `import kubernetes_asyncio` has everything, as without this function."""
    absent = [name for name in PACKAGES if name not in sys.modules]
    for name in absent:
        sys.modules[name] = _without_contents(name)
    try:
        from kubernetes_asyncio.client.configuration import Configuration

        if PACKAGES[1] in absent:
            # The loaders import both names from here, and use the client only in functions that are not called.
            vars(sys.modules[PACKAGES[1]]).update(Configuration=Configuration, ApiClient=object)
        from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader
        from kubernetes_asyncio.config.kube_config import load_kube_config
    finally:
        for name in absent:
            del sys.modules[name]
    return CredentialLoaders(Configuration, InClusterConfigLoader, load_kube_config)


def _without_contents(name: str) -> ModuleType:
    """A package whose modules can be imported, but whose `__init__` was not run. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return importlib.util.module_from_spec(spec)
