"""What needs a person: grouped, worst and oldest first, each with words to type; and nothing that needs nobody."""

from datetime import timedelta

from factory import NOW, at, hours, job, node, nodes, rules, snapshot

from connectors.connector import Gap
from connectors.rules import SlurmPartition
from console.triage.attention import attention


def test_a_quiet_cluster_needs_nobody():
    rows = [
        job("1", state="running", nodelist=["gn01"]), job("2", reason="Resources"), job("3", reason="JobHeldUser"),
        job("4_[0-9%2]", reason="JobArrayTaskLimit", tasks=10), job("5", reason="Dependency", dependency="afterok:1(unfulfilled)"),
        job("6", state="failed", exit_code=1), job("7", reason="None"),
    ]  # fmt: skip
    assert attention(snapshot(rows, [*nodes("gn", 1, 2, used=8)])) == ()


def test_jobs_that_never_start_are_grouped_by_why():
    wide = [
        job(str(i), reason="Resources", gpus=16, gpus_per_node=16.0, submit_time=NOW - hours(i)) for i in range(1, 12)
    ]
    late = [job(f"9{i}", reason="PartitionTimeLimit", time_limit_s=9 * 86400.0) for i in range(2)]
    orphans = [
        job(f"8{i}", reason="DependencyNeverSatisfied", dependency=f"afterok:{i}(failed)", user=u)
        for i, u in enumerate(("ana", "bo", "cy"))
    ]
    items = attention(snapshot([*wide, *late, *orphans], nodes("gn", 1, 4)))
    assert [item.severity for item in items] == ["act"] * 3
    what = [item.what for item in items]
    assert what[0].startswith("11 jobs can never start: 16 GPUs a node; largest node has 8")
    assert any(text.startswith("2 jobs can never start: time limit 9d") for text in what)
    (dependency,) = [item for item in items if "DependencyNeverSatisfied" in item.what]
    assert dependency.what.startswith("3 jobs wait for a job that failed")
    assert dependency.objects == ("80", "81", "82")
    assert dependency.next_step == "explain 80"
    assert items[0].since == NOW - hours(11)
    assert items[0].who == "lin"


def test_order_is_severity_then_age():
    dead = [
        node("gn01", state="down", reason="new", reason_time=at("11:00")),
        node("gn02", state="drained", reason="old", reason_time=at("02:00")),
    ]
    gap = Gap(source="sacct", reason="refused", since=at("01:00"), affects=("usage",))
    items = attention(snapshot([job("1", reason="InvalidQOS", qos="gone")], dead, gaps=(gap,)))
    assert [item.severity for item in items] == ["act", "fault", "fault", "stale"]
    assert [item.objects for item in items[1:3]] == [("gn02",), ("gn01",)]


def test_held_by_the_system_needs_somebody_and_by_its_owner_nobody():
    rows = [
        job("1", reason="launch failed requeued held", restarts=2),
        job("2", reason="JobHeldUser"),
        job("3", reason="JobHeldAdmin"),
    ]
    (item,) = attention(snapshot(rows, nodes("gn", 1, 1)))
    assert item.objects == ("1",)


def test_a_stopped_partition_and_how_many_wait():
    parts = (SlurmPartition(name="train", state="DOWN"), SlurmPartition(name="low", state="UP"))
    (item,) = [
        i
        for i in attention(
            snapshot(
                [job("1", reason="PartitionDown"), job("2", reason="Priority")],
                nodes("gn", 1, 1),
                rules=rules(partitions=parts),
            )
        )
        if "train" in i.what
    ]
    assert "2 jobs wait in it" in item.what
    assert item.next_step == "start partition:train"


def test_a_reservation_without_its_nodes():
    ws = {"name": "ws", "start_time": at("09:00"), "end_time": at("18:00"), "nodelist": ["gn01"], "kind": "user"}
    maint = {
        "name": "m",
        "start_time": at("09:00"),
        "end_time": at("18:00"),
        "nodelist": ["gn01"],
        "kind": "maintenance",
    }
    items = attention(snapshot([], [node("gn01", state="down", reason="x")], reservations=[ws, maint]))
    (item,) = [i for i in items if i.severity == "act"]
    assert item.objects == ("ws", "gn01")


def test_ended_jobs_that_still_hold_nodes():
    rows = [
        job("1", state="completing", nodelist=["gn01"], end_time=NOW - timedelta(minutes=40)),
        job("2", state="completing", nodelist=["gn02"], end_time=NOW - timedelta(seconds=30)),
    ]
    (item,) = attention(snapshot(rows, nodes("gn", 1, 2, used=8)))
    assert item.objects == ("1",)
    assert "40m" in item.what


def test_silent_nodes_and_bad_devices():
    silent = node("gn01", state="mixed", state_raw="MIXED+NOT_RESPONDING", used=4)
    devices = [
        {"node": "gn07", "index": 2, "row_remap": "pending", "state": "allocated"},
        {"node": "gn08", "index": 4, "state": "faulty", "xid": 79, "xid_time": at("11:04")},
        {"node": "gn09", "index": 0, "state": "free", "row_remap": "none"},
    ]
    partly = node("gn10", gpus_unusable=1.0)
    items = attention(snapshot([], [silent, partly, *nodes("gn", 7, 9)], gpus=devices))
    what = " | ".join(item.what for item in items)
    assert all(item.severity == "fault" for item in items)
    assert "gn01 not responding" in what
    assert "GPU 2 row remap pending" in what
    assert "GPU 4 faulty, Xid 79" in what
    assert "gn10: 1 GPU of 8 GPUs unusable" in what
    assert len(items) == 4


def test_a_clock_that_is_off():
    from msgspec.structs import replace as with_fields

    snap = snapshot([], nodes("gn", 1, 1))
    from dataclasses import replace

    skewed = replace(snap, meta=with_fields(snap.meta, clock_skew_s=-300.0))
    (item,) = attention(skewed)
    assert item.severity == "stale"
    assert "5m" in item.what
