"""The inventory of openb as published (alibaba/clusterdata, cluster-trace-gpu-v2023/csv), compressed or not.

`openb_node_list_gpu_node` or `openb_node_list_all_node` (sn, cpu_milli, memory_mib, gpu), and `openb_pod_list_default`
or another list of pods (name, cpu_milli, memory_mib, num_gpu, gpu_milli, qos). Other columns are ignored.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from equipoise.lab.formats.openb import read_tables
from equipoise.lab.formats.tables import SUFFIX, TraceError, table_of
from equipoise.lab.model.trace import Trace

NODES, PODS = "openb_node_list_gpu_node", "openb_pod_list_default"

FILES: tuple[str, ...] = (f"{NODES}{SUFFIX}", f"{PODS}{SUFFIX}")

NODE_NAMES: Mapping[str, str] = {"sn": "node_id"}
POD_NAMES: Mapping[str, str] = {
    "name": "pod_id",
    "cpu_milli": "cpu_request_milli",
    "memory_mib": "memory_request_mib",
}

_LIST = re.compile(r"(openb_(?:node|pod)_list)_\w+")


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The same as `openb.read`. Raises TraceError."""
    return read_tables(
        folder,
        _chosen(folder, NODES),
        _chosen(folder, PODS),
        node_names=NODE_NAMES,
        pod_names=POD_NAMES,
        nodes=nodes,
        seed=seed,
    )


def required(file: str) -> str:
    """The name of the required file if this is a list of nodes or of pods; otherwise the name of the file itself."""
    match = _LIST.fullmatch(table_of(file))
    return next((name for name in FILES if match is not None and name.startswith(match[1])), file)


def _chosen(folder: Path, table: str) -> str:
    """The table of this name, or the only other one of its kind. Raises TraceError."""
    kind = table.rpartition("_list_")[0]
    names = map(table_of, (path.name for path in folder.iterdir()))
    tables = sorted({name for name in names if name.startswith(f"{kind}_list_")})
    if table in tables or len(tables) == 1:
        return table if table in tables else tables[0]
    raise TraceError(f"{folder} has {', '.join(tables)}; keep one of them, or add {table}{SUFFIX}")
