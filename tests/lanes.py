"""How pytest-xdist shares tests among its workers: the first has the tests without a cluster."""

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

CLUSTER = "cluster "
"""How the name of a unit of the cluster lane begins."""

LONGEST_FIRST: Sequence[str] = ("tests/e2e/killed", "tests/e2e/deployed", "tests/faults")
"""The units of the cluster lane that take longest begin first; all others follow."""

FIRST_WORKER = "gw0"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


def unit_of(item: pytest.Item) -> str:
    """Tests of one unit run one after another in the same process: they share fixtures."""
    file, _, _ = item.nodeid.partition("::")
    if item.get_closest_marker("cluster") is None:
        return file
    folder = file.rpartition("/")[0]
    return CLUSTER + (folder if folder in LONGEST_FIRST else file)


def send_units(items: Iterable[pytest.Item], run: str) -> None:
    """The scheduler knows tests by their id alone; a file brings the unit of each, in the order of the collection."""
    _units_file(run).write_text(json.dumps([unit_of(item) for item in items]))


def _units_file(run: str) -> Path:
    return Path(tempfile.gettempdir()) / f"equipoise-test-units-{run}.json"


class Lanes(LoadScopeScheduling):
    """The first worker runs no test with a cluster, as long as there are others to do so."""

    def schedule(self) -> None:
        if self.collection is None:
            worker = self.nodes[0]
            file = _units_file(worker.workerinput["testrunuid"])
            self._units = dict(zip(self.registered_collections[worker], json.loads(file.read_text()), strict=True))
            file.unlink()
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return str(self._units[nodeid])

    def _assign_work_unit(self, node: WorkerController) -> None:
        unit = self._next_unit(node)
        if unit is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Assign the next unit with the last test of a worker: a worker needs to know which test follows."""
        if not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 1:
            self._assign_work_unit(node)

    def _next_unit(self, node: WorkerController) -> str | None:
        units = list(self.workqueue)
        if len(self.nodes) > 1 and node.gateway.id == FIRST_WORKER:
            return next((unit for unit in units if not unit.startswith(CLUSTER)), None)
        clusters = [unit for unit in units if unit.startswith(CLUSTER)]
        for wanted in LONGEST_FIRST:
            if CLUSTER + wanted in clusters:
                return CLUSTER + wanted
        return next(iter((*clusters, *units)), None)
