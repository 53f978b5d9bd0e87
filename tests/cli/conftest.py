"""Real parts for the program's tests."""

from equipoise.testbed.pytest_fixture import pytest_collection_finish, start_cluster, testbed_binaries

__all__ = ["pytest_collection_finish", "start_cluster", "testbed_binaries"]
