"""What a shape can get now."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_world import at, node, running, snapshot

from console.scheduling.free import free_by_node, largest_gang, placeable


def test_whole_blocks_count_not_gpus():
    snap = snapshot(
        [node("n1"), node("n2"), node("n3", model="h100"), node("n4", state="drained", schedulable=False)],
        [running("1", "n1", 5), running("2", "n2", 1)],
    )
    assert placeable(snap, 8) == 1
    assert placeable(snap, 2) == 1 + 3 + 4
    assert placeable(snap, 8, "A100") == 0
    assert placeable(snap, 8, "h100") == 1
    assert largest_gang(snap, 3) == 3
    assert free_by_node(snap) == {"n1": 3, "n2": 7, "n3": 8}


def test_reservations_count_only_while_they_are_in_force():
    kept = {"name": "a", "start_time": at(-1), "end_time": at(1), "nodelist": ["n1"]}
    later = {"name": "b", "start_time": at(1), "end_time": at(2), "nodelist": ["n2"]}
    part = {"name": "c", "start_time": at(-1), "end_time": None, "nodelist": ["n3"], "gpus": 4.0}
    snap = snapshot([node("n1"), node("n2"), node("n3", gpus_unusable=1)], [], reservations=[kept, later, part])
    assert free_by_node(snap) == {"n1": 0, "n2": 8, "n3": 3}


def test_a_block_has_at_least_one_gpu():
    with pytest.raises(ValueError, match="at least one"):
        placeable(snapshot([node("n1")], []), 0)
    with pytest.raises(ValueError, match="at least one"):
        largest_gang(snapshot([node("n1")], []), 0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=5), st.integers(1, 8))
def test_blocks_never_hold_more_than_is_free(held, size):
    nodes = [node(f"n{i}") for i in range(len(held))]
    snap = snapshot(nodes, [running(str(i), f"n{i}", gpus) for i, gpus in enumerate(held) if gpus])
    assert placeable(snap, size) * size <= sum(8 - gpus for gpus in held)
    assert largest_gang(snap, size) <= placeable(snap, size)
