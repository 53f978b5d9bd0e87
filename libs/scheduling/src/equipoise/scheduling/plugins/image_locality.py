"""ImageLocality: prefers nodes that already have the images of a pod.

An image has the size that the node itself reports. kube-scheduler uses the size from the first node that reported the
name of the image. The two differ only while a tag means different images.
"""

import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

MIB = 2**20

LEAST = 23 * MIB
"""Bytes of images on a node up to which it scores 0."""

MOST = 1_000 * MIB
"""Bytes per image of the pod from which a node scores 100."""


class ImageLocality:
    name = "ImageLocality"

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """Score each node by the bytes of the pod's images on it.

        The size of an image is multiplied by the share of the nodes that have it, so that a rare image does not draw
        all pods to a few nodes.
        """
        if snapshot.images.unknown:
            return np.zeros(len(rows), dtype=np.int64)
        spec = pod.pod.spec
        images = [container.image for container in (*spec.init_containers, *(spec.containers or ()))]
        images += [volume.image.reference for volume in spec.volumes if volume.image is not None]
        weighted_bytes = None
        nodes = max(len(snapshot.rows), 1)
        for image in images:
            sizes = snapshot.images.sizes(with_tag(image))
            if not sizes:
                continue
            image_bytes = np.fromiter(sizes.values(), np.float64, len(sizes))
            weighted_bytes = np.zeros(snapshot.columns, dtype=np.int64) if weighted_bytes is None else weighted_bytes
            node_rows = np.fromiter(sizes, np.intp, len(sizes))
            weighted_bytes[node_rows] += (image_bytes * (len(sizes) / nodes)).astype(np.int64)
        if weighted_bytes is None:
            return np.zeros(len(rows), dtype=np.int64)
        most = MOST * max(len(images), 1)
        score: Ints = MAX_SCORE * (np.clip(weighted_bytes[rows], LEAST, most) - LEAST) // (most - LEAST)
        return score


def with_tag(image: str) -> str:
    """The image with a tag, as a node reports it. Without a tag, `latest` is pulled."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
