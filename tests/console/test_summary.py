"""The fleet view's figures: each GPU once, lost is neither used nor free, unknown is None."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "triage"))
from factory import NOW, at, hours, job, node, nodes, snapshot

from connectors.connector import Gap
from console.messages import Summary
from console.summary import summarise


def test_figures_of_nodes_add_up():
    listed = [
        node("gn01", used=8), node("gn02", used=4), node("gn03"), node("gn04", state="drained"), node("gn05", state="down", used=8),
        node("gn06", gpus=8, gpus_unusable=1.0), node("gn07", gpus=16), node("cpu01", gpus=0),
    ]  # fmt: skip
    said = summarise(snapshot([], listed))
    assert said.nodes == 8
    assert said.nodes_lost == 2
    assert said.gpus == 64
    assert said.gpus_allocated == 12  # not the 8 that the down node still shows
    assert said.gpus_lost == 17
    assert said.gpus_free == 4 + 8 + 7 + 16
    assert said.place8 == 1 + 2  # gn03 and twice gn07; gn06 has 7
    assert said.gpus == said.gpus_allocated + said.gpus_free + said.gpus_lost


def test_draining_and_cordoned_nodes_offer_nothing():
    said = summarise(snapshot([], [node("gn01", used=4, state="draining"), node("gn02", schedulable=False)]))
    assert (said.gpus_free, said.place8, said.gpus_allocated, said.gpus_lost) == (0, 0, 4, 0)


def test_a_node_that_did_not_say_leaves_no_figure():
    dark = node("gn01") | {"gpus_allocated": None}
    said = summarise(snapshot([], [dark, node("gn02")]))
    assert (said.gpus, said.gpus_allocated, said.gpus_free, said.place8) == (16, None, None, None)


def test_small_nodes_and_reservations_in_place8():
    assert summarise(snapshot([], nodes("gn", 1, 3, gpus=4))).place8 == 3
    now = {"name": "r", "start_time": at("09:00"), "end_time": at("18:00"), "nodelist": ["gn01"]}
    later = {"name": "s", "start_time": at("15:00"), "end_time": at("18:00"), "nodelist": ["gn02"]}
    assert summarise(snapshot([], nodes("gn", 1, 3), reservations=[now, later])).place8 == 2
    assert summarise(snapshot([], [node("cpu", gpus=0)])).place8 is None


def test_jobs_are_counted_by_task():
    rows = [
        job("1", state="running", nodelist=["gn01"]),
        job("2_[0-82]", reason="Resources", gpus=1, tasks=83, submit_time=NOW - hours(3)),
        job("3", reason="JobHeldUser", gpus=2, submit_time=NOW - hours(90)),
        job("4", reason="PartitionTimeLimit", time_limit_s=9 * 86400.0, gpus=8, submit_time=NOW - hours(1)),
        job("5", state="completing", nodelist=["gn01"], end_time=NOW),
    ]
    said = summarise(snapshot(rows, nodes("gn", 1, 2, used=8)))
    assert (said.running, said.pending, said.pending_gpus, said.never) == (1, 85, 93, 1)
    assert said.oldest_wait_s == 3 * 3600


def test_a_table_behind_a_gap_is_unknown():
    gap = Gap(source="scontrol show node", reason="timed out", since=NOW, affects=("nodes",))
    said = summarise(snapshot([job("1", state="running", nodelist=["gn01"])], [], gaps=(gap,)))
    assert (said.nodes, said.gpus, said.gpus_free, said.place8, said.running) == (None, None, None, None, 1)


def test_busy_is_the_mean_of_what_was_measured():
    readings = [{"node": "gn01", "index": i, "utilization_ratio": ratio} for i, ratio in enumerate((0.5, 1.0, None))]
    assert summarise(snapshot([], nodes("gn", 1, 1), gpus=readings)).busy_ratio == 0.75
    assert summarise(snapshot([], nodes("gn", 1, 1))).busy_ratio is None


def test_every_figure_is_one_of_the_message():
    said = summarise(snapshot([job("1", reason="Resources")], nodes("gn", 1, 1)))
    assert isinstance(said, Summary)
    assert said.start_p50_s is None
