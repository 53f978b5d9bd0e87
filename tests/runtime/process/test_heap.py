"""The heap of a process."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
from threading import Thread
from equipoise.runtime.process.heap import use_one_heap
import ctypes
if use_one_heap():
    kept = []
    threads = [Thread(target=lambda: kept.append([b"x" * 5000 for _ in range(1000)])) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has several heaps")
def test_threads_allocate_from_one_heap() -> None:
    shown = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stderr
    assert "Arena 0" in shown
    assert "Arena 1" not in shown
