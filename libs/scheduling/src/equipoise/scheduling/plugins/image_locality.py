"""ImageLocality: nodes that have the images of a pod already.

Unlike in kube-scheduler the size of an image is that on the node itself; there it is that of the first node which
reported the name. They differ only while a tag means different images.
"""

import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

MIB = 2**20

LEAST = 23 * MIB
"""Bytes on a node that score 0."""

MOST = 1_000 * MIB
"""Bytes per image of a pod that score 100."""


class ImageLocality:
    name = "ImageLocality"

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """Scores the bytes of its images that each node has, an image counting in proportion to the nodes that have it.

        So a rare image does not draw all pods to the few nodes that have it.
        """
        if snapshot.images.unknown:
            return np.zeros(len(rows), dtype=np.int64)
        spec = pod.pod.spec
        images = [container.image for container in (*spec.init_containers, *(spec.containers or ()))]
        images += [volume.image.reference for volume in spec.volumes if volume.image is not None]
        found = None
        nodes = max(len(snapshot.rows), 1)
        for image in images:
            sizes = snapshot.images.sizes(with_tag(image))
            if not sizes:
                continue
            bytes_on = np.fromiter(sizes.values(), np.float64, len(sizes))
            found = np.zeros(snapshot.columns, dtype=np.int64) if found is None else found
            found[np.fromiter(sizes, np.intp, len(sizes))] += (bytes_on * (len(sizes) / nodes)).astype(np.int64)
        if found is None:
            return np.zeros(len(rows), dtype=np.int64)
        most = MOST * max(len(images), 1)
        score: Ints = MAX_SCORE * (np.minimum(np.maximum(found[rows], LEAST), most) - LEAST) // (most - LEAST)
        return score


def with_tag(image: str) -> str:
    """The name that a node reports: with the tag that is pulled if none is given."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
