"""`equipoise testbed`."""

from equipoise.testbed.command import testbed

__all__ = ["testbed"]
