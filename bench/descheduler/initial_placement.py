"""The nodes and pods of a benchmark, and where the stock scheduler places them."""

from equipoise.cli.demo.manifests import namespace_documents, node_documents, workload_documents
from equipoise.lab.model.trace import Trace
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.placement import Placement, all_pods, placement


async def create_fleet(cluster: Cluster, api: Api, trace: Trace) -> None:
    """Creates the nodes, namespaces and workloads of a trace."""
    await cluster.add_nodes(node_documents(trace))
    await api.apply(namespace_documents())
    await api.apply(workload_documents(trace, epoch=0, step_seconds=60))


async def stock_placement(trace: Trace) -> Placement:
    """The placement of the pods by the stock scheduler. It chooses randomly among equal nodes, so each call differs."""
    async with Cluster() as cluster, cluster.api() as api:
        await create_fleet(cluster, api, trace)
        return placement(await all_pods(api, len(trace.pods) + len(trace.nodes), running=True))
