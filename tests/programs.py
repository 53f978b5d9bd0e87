"""Programs that are no part of a cluster: few tests use them, and are skipped where they cannot be built."""

import os
from pathlib import Path

import pytest

from equipoise.testbed.binaries.build import BuildError, Module, build_module, default_cache, installed_programs
from equipoise.testbed.binaries.toolchain import NoGoError, Progress


def program(module: Module, *, installed: bool = True) -> Path:
    """The one program of a module. Its first build takes minutes, for which only the tests that use it wait.

    Without `installed`, it is always built: an installed program may be of any newer version.
    """
    (name,) = module.programs
    if installed and (found := installed_programs(module, os.environ)):
        return found[name]
    with Progress() as progress:
        try:
            return build_module(module, cache=default_cache(), progress=progress) / name
        except (BuildError, NoGoError) as error:
            pytest.skip(f"{name} is not installed and cannot be built: {error}")
