"""What a stated shape can get right now: whole blocks of GPUs on nodes in service, reservations in force left out."""

import numpy as np
from numpy.typing import NDArray

from connectors.model import Snapshot
from console.scheduling.cluster import Cluster, read_cluster
from console.scheduling.profile import EPSILON


def free_by_node(snapshot: Snapshot, model: str | None = None) -> dict[str, float]:
    """Return the GPUs that a new job could get now on each serving node (of that model)."""
    cluster = read_cluster(snapshot)
    free = _free(cluster)
    return {
        name: float(free[node])
        for node, name in enumerate(cluster.names)
        if cluster.serving[node] and _is_model(cluster, node, model)
    }


def placeable(snapshot: Snapshot, gpus_per_node: int, model: str | None = None) -> int:
    """Return how many blocks of so many GPUs, each on one node, could be placed now.

    Nodes that take nothing new and nodes (or GPUs) of reservations in force don't count.
    """
    if gpus_per_node < 1:
        raise ValueError(f"a block has at least one GPU, not {gpus_per_node}")
    return sum(int((free + EPSILON) // gpus_per_node) for free in free_by_node(snapshot, model).values())


def largest_gang(snapshot: Snapshot, gpus_per_node: int, model: str | None = None) -> int:
    """Return on how many nodes at once so many GPUs each could be had now: the largest gang of that shape."""
    if gpus_per_node < 1:
        raise ValueError(f"a block has at least one GPU, not {gpus_per_node}")
    return sum(free + EPSILON >= gpus_per_node for free in free_by_node(snapshot, model).values())


def _is_model(cluster: Cluster, node: int, model: str | None) -> bool:
    own = cluster.models[node]
    return model is None or (own is not None and own.casefold() == model.casefold())


def _free(cluster: Cluster) -> NDArray[np.float64]:
    free = cluster.gpus.copy()
    for node, demand in enumerate(cluster.other):
        free[node] -= demand.gpus
    for job in cluster.running:
        for node, demand in job.placed:
            free[node] -= demand.gpus
    for one in cluster.reserved:
        if one.start <= 0 < one.end:
            for node in one.nodes:
                free[node] -= cluster.gpus[node] if one.demand is None else one.demand.gpus
    clipped: NDArray[np.float64] = np.maximum(free, 0.0)
    return clipped
