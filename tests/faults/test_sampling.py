"""What is recorded of processes, logs and caches."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest
from bus_worlds import eventually

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec
from equipoise.contracts.messages.placement import NODE_PLACEMENT
from faults.convergence import placement_differences
from faults.sampling import LogSearch, ProcessSampler

SERVICE = """
import asyncio, sys, time

async def work():
    print(sys.argv[0])
    tasks = [asyncio.create_task(asyncio.sleep(60)) for _ in range(20)]
    while True:
        print("time", time.time(), flush=True)
        await asyncio.sleep(0.1)

asyncio.run(work())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
async def test_a_process_is_sampled_blocked_and_given_another_clock(tmp_path: Path) -> None:
    """Its event loop is late when it is blocked, and its clock differs by the offset."""
    (tmp_path / "served.py").write_text(SERVICE)
    control, file, log = tmp_path / "control", tmp_path / "samples", tmp_path / "log"
    control.write_text(json.dumps({"offset": -600.0, "block": 0.0}))
    tests = str(Path(__file__).parents[1])
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "faults.instrumented", "served", str(control), str(file),
            env={**os.environ, "PYTHONPATH": os.pathsep.join((tests, str(tmp_path)))}, stdout=output,
        )  # fmt: skip
    try:
        sampler = ProcessSampler("served", process.pid, file)

        def shown() -> float:
            return float(log.read_text().splitlines()[-1].split()[-1])

        await eventually(lambda: file.exists() and file.stat().st_size > 0)
        sample = sampler.sample(1.0)
        assert sample is not None
        assert sample.tasks > 20
        assert sample.measured > 0
        assert sample.resident > 2**20
        assert sample.descriptors > 3
        assert shown() < file.stat().st_mtime - 300

        control.write_text(json.dumps({"offset": 600.0, "block": 1.5}))
        process.send_signal(signal.SIGUSR1)
        await eventually(lambda: any(json.loads(line)["lag"] > 0.9 for line in file.read_text().splitlines()))
        await eventually(lambda: shown() > file.stat().st_mtime + 300)
        sample = sampler.sample(2.0)
        assert sample is not None
        assert sample.late >= 1
        assert sample.worst > 0.9
    finally:
        process.kill()
        await process.wait()
    assert sampler.sample(3.0) is None


def test_a_secret_in_a_log_is_found_once(tmp_path: Path) -> None:
    """Only what was written since the previous search is read."""
    log = tmp_path / "binder-0.log"
    log.write_text("started\nAuthorization: Bearer hidden\n")
    search = LogSearch({"the token": "hidden", "the password": "other"})
    (leak,) = search.found(1.0, [log, tmp_path / "missing.log"])
    assert (leak.log, leak.what) == ("binder-0.log", "the token")
    assert search.found(2.0, [log]) == []


def test_placement_is_compared_with_a_list() -> None:
    """Missing and additional pods of a node, and nodes that do not exist."""
    node = NODE_PLACEMENT.node
    placed = NODE_PLACEMENT.pods[0]
    pod = Pod(metadata=ObjectMeta(name=placed.name, uid=placed.uid), spec=PodSpec(node_name=node))
    assert placement_differences({node: NODE_PLACEMENT}, [node], [pod]) == []
    (missing,) = placement_differences({node: NODE_PLACEMENT}, [node], [])
    assert "1 do not exist" in missing
    other = msgspec.structs.replace(pod, metadata=ObjectMeta(name="new", uid="new"))
    (unpublished,) = placement_differences({node: NODE_PLACEMENT}, [node], [pod, other])
    assert "1 pods are not published" in unpublished
    assert placement_differences({node: NODE_PLACEMENT}, [], [pod]) == [f"{node} is published and does not exist"]
    assert placement_differences({}, [node], [pod])
