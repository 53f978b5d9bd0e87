"""A real cluster for the tests of this folder."""

from equipoise.testbed.pytest_fixture import pytest_collection_finish, start_cluster, testbed_binaries

__all__ = ["pytest_collection_finish", "start_cluster", "testbed_binaries"]
