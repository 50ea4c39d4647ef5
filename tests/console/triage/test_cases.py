"""The Slurm cases A01 to A25 of the on-call collection: class, verdict, figures, and what must not be said."""

from datetime import timedelta

from factory import NOW, TRAIN, at, hours, job, node, nodes, row_of, rules, snapshot

from connectors.connector import Gap
from connectors.rules import SlurmAssociation, SlurmPartition, SlurmQos
from console.summary import summarise
from console.triage.attention import attention
from console.triage.diagnosis import Cause
from console.triage.explain import diagnose


def explain(snap, number, **more):
    return diagnose(snap, row_of(snap, number), **more)


def texts(diagnosis):
    return " | ".join(
        part
        for cause in diagnosis.causes
        for part in (
            cause.says,
            cause.counterfactual,
            cause.next_step,
            cause.who_acts,
            *(e.text for e in cause.evidence),
        )
        if part
    )


def first(diagnosis, cause, verdict):
    assert (diagnosis.causes[0].cause, diagnosis.verdict) == (cause, verdict), diagnosis
    return diagnosis.causes[0]


def planned_cluster(**small):
    big = job("884120", reason="Resources", gpus=32, nodes=4, priority=91544.0, time_limit_s=2 * 86400.0,
              expected_start_time=at("14:00"))  # fmt: skip
    little = job("884131", reason="Priority", gpus=2, priority=90210.0, **small)
    mixed = [node(name, used=4, state_raw="MIXED+PLANNED") for name in ("gn11", "gn12")]
    return snapshot([big, little], [*mixed, node("gn13", state="planned"), node("gn14", state="planned")])


def test_a01_free_gpus_are_kept_for_an_earlier_job():
    said = explain(planned_cluster(), "884131")
    cause = first(said, Cause.BEHIND_IN_LINE, "wait")
    assert "884120" in cause.says
    assert cause.counterfactual == "a limit of at most 2h30m would fit before 14:00"
    assert cause.stated_by == "system"
    assert "down" not in texts(said)


def test_a01_a_short_job_behind_it_is_not_told_to_get_shorter():
    cause = first(explain(planned_cluster(time_limit_s=3600.0), "884131"), Cause.BEHIND_IN_LINE, "wait")
    assert cause.counterfactual is None


LONG_TEXT = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


def test_a02_no_node_is_called_down_when_none_is():
    key = SlurmPartition(name="key", priority_tier=30)
    running = [
        job(f"7{i}", state="running", partition="key", nodelist=[f"gn0{i}"], end_time=at("15:00") + hours(i))
        for i in range(1, 7)
    ]
    low = SlurmPartition(name="low", priority_tier=1)
    snap = snapshot(
        [*running, job("901233", reason=LONG_TEXT, partition="low")],
        nodes("gn", 1, 6, used=8, partitions=["key", "low"]),
        rules=rules(partitions=(key, low)),
    )
    cause = first(explain(snap, "901233"), Cause.ALL_BUSY, "wait")
    assert "partition key" in cause.says
    assert "16:00" in cause.says
    assert cause.clears_at == at("16:00")
    assert {c.cause for c in explain(snap, "901233").causes} == {Cause.ALL_BUSY}


def test_a02_with_rebooting_and_a_drained_node_names_the_node():
    text = "Nodes_required_for_job_are_DOWN,_DRAINED,_REBOOTING_or_reserved_for_jobs_in_higher_priority_partitions"
    dead = [
        node(f"gn0{i}", state="drained", reason="disk full", reason_by="ana", reason_time=at("02:14")) for i in (1, 2)
    ]
    snap = snapshot([job("1", reason=text)], [*dead, node("gn03", used=8), node("gn04", used=8)])
    cause = first(explain(snap, "1"), Cause.NODE_OUT, "act")
    assert "gn[01-02]" in cause.says
    assert "disk full" in cause.says
    assert "ana" in cause.says


def qos_full(*, asks=8, **more):
    qos = SlurmQos(name="teamnlp", grp_tres={"gres/gpu": 64.0})
    held = [(8, "ana"), (16, "bo"), (12, "ana"), (24, "cy")]
    running = [
        job(
            f"7700{i}",
            state="running",
            gpus=gpus,
            qos="teamnlp",
            user=user,
            nodelist=[f"gn0{i}"],
            time_limit_s=3600 * (i + 2.0),
        )
        for i, (gpus, user) in enumerate(held, 1)
    ]
    asking = job("77120", reason="QOSGrpGRES", qos="teamnlp", gpus=asks, **more)
    return snapshot([*running, asking], nodes("gn", 1, 12), rules=rules(qos=(qos,)))


def test_a03_the_whole_qos_is_full():
    said = explain(qos_full(expected_start_time=at("2026-12-10T00:00")), "77120")
    cause = first(said, Cause.QUOTA_FULL, "wait")
    assert "60 of its 64" in cause.says
    assert "at most 4 GPUs" in cause.counterfactual
    assert "quota qos:teamnlp gpus=68" in cause.next_step
    assert cause.clears_at == at("13:30")  # the earliest end that gives enough: 8 GPUs of 77001
    assert all(word in texts(said) for word in ("77004", "cy", "24 GPUs"))


def test_a03_slurms_estimate_behind_a_quota_is_not_repeated():
    said = explain(qos_full(expected_start_time=at("2026-12-10T00:00")), "77120")
    assert said.start is None
    assert "12-10" not in said.says


def test_a03_more_than_the_whole_cap_is_never():
    cause = first(explain(qos_full(asks=72, nodes=9), "77120"), Cause.NEVER_FITS, "never")
    assert "72" in cause.says
    assert "64" in cause.says


def accounts(cap=40.0):
    return (
        SlurmAssociation(account="root"),
        SlurmAssociation(account="vision", parent="root", grp_tres={"gres/gpu": cap}),
        SlurmAssociation(account="vision-diffusion", parent="vision"),
        SlurmAssociation(account="vision-det", parent="vision"),
        SlurmAssociation(account="vision-diffusion", user="lin", parent="vision-diffusion"),
    )


def test_a04_the_parent_binds_and_the_sibling_is_named():
    det = job("1", state="running", gpus=36, team="vision-det", user="ana", nodes=5, nodelist=["gn01"])
    own = job("2", state="running", gpus=4, team="vision-diffusion", nodelist=["gn02"])
    snap = snapshot(
        [det, own, job("3", reason="AssocGrpGRES", team="vision-diffusion")],
        nodes("gn", 1, 9),
        rules=rules(associations=accounts()),
    )
    said = explain(snap, "3")
    cause = first(said, Cause.QUOTA_FULL, "wait")
    assert "account vision uses 40 of its 40" in cause.says
    assert "vision-det 36 GPUs" in texts(said)
    assert "quota account:vision gpus=48" in cause.next_step


def per_user(asks):
    qos = SlurmQos(name="normal", max_tres_per_user={"gres/gpu": 16.0})
    mine = job("1", state="running", gpus=12, nodes=2, nodelist=["gn01"], end_time=at("15:00"))
    other = job("2", state="running", gpus=8, user="ana", nodelist=["gn02"], end_time=at("12:00"))
    return snapshot(
        [mine, other, job("3", reason="QOSMaxGRESPerUser", gpus=asks, nodes=4)],
        nodes("gn", 1, 6),
        rules=rules(qos=(qos,)),
    )


def test_a05_only_the_users_own_jobs_help():
    said = explain(per_user(8), "3")
    cause = first(said, Cause.QUOTA_FULL, "wait")
    assert "user lin" in cause.says
    assert "12 of its 16" in cause.says
    assert cause.clears_at == at("15:00")  # not 12:00, when ana's job ends
    assert "own jobs" in cause.who_acts


def test_a05_an_ask_above_the_cap_alone_is_never():
    first(explain(per_user(24), "3"), Cause.NEVER_FITS, "never")


def test_a06_per_job_is_no_queue():
    qos = SlurmQos(name="normal", max_tres_per_job={"gres/gpu": 16.0})
    snap = snapshot([job("1", reason="QOSMaxGRESPerJob", gpus=32, nodes=4)], nodes("gn", 1, 6), rules=rules(qos=(qos,)))
    cause = first(explain(snap, "1"), Cause.NEVER_FITS, "never")
    assert "32 GPUs" in cause.says
    assert "16 GPUs" in cause.says
    assert "split" in cause.next_step


def dead_node(reason):
    gone = node(
        "gn07",
        state="down",
        state_raw="DOWN+DRAIN+NOT_RESPONDING",
        reason="Not responding",
        reason_by="slurm",
        reason_time=at("09:02"),
    )
    return snapshot([job("1", reason=reason, requested_nodes=["gn07"])], [gone, *nodes("gn", 11, 22)])


def test_a07_pinned_to_a_dead_node_in_both_spellings():
    for reason in (
        "ReqNodeNotAvail, UnavailableNodes:gn07",
        "ReqNodeNotAvail,_UnavailableNodes:gn07",
        "(ReqNodeNotAvail(Unavailable:gn07))",
    ):
        cause = first(explain(dead_node(reason), "1"), Cause.NODE_OUT, "act")
        assert "gn07" in cause.says
        assert "Not responding" in cause.says
        assert "12 equal nodes" in cause.next_step
        assert "gn[11-22]" in cause.counterfactual


def test_a08_the_same_word_without_a_dead_node_is_a_place_in_line():
    earlier = job(
        "9", reason="Resources", priority=5000.0, expected_start_time=at("13:00"), slurm_scheduled_nodes="gn07"
    )
    snap = snapshot(
        [earlier, job("1", reason="ReqNodeNotAvail, May be reserved for other job", requested_nodes=["gn07"])],
        [node("gn07", state="planned")],
    )
    cause = first(explain(snap, "1"), Cause.BEHIND_IN_LINE, "wait")
    assert "9" in cause.says


def test_a08_newer_slurm_says_so_of_a_drained_node_too():
    first(explain(dead_node("ReqNodeNotAvail, May be reserved for other job"), "1"), Cause.NODE_OUT, "act")


def test_a09_the_partitions_time_limit():
    short = SlurmPartition(name="short", max_time_s=86400.0)
    snap = snapshot(
        [job("1", reason="PartitionTimeLimit", partition="short", time_limit_s=3 * 86400.0)],
        [],
        rules=rules(partitions=(short, SlurmPartition(name="long"))),
    )
    cause = first(explain(snap, "1"), Cause.NEVER_FITS, "never")
    assert "time limit 3d; partition short allows at most 1d" in cause.says
    assert "TimeLimit=1-00:00:00" in cause.next_step
    assert "long" in cause.next_step


def test_a10_a_running_parent():
    parent = job("5510", state="running", end_time=at("14:30"), nodelist=["gn01"])
    snap = snapshot([parent, job("1", reason="Dependency", dependency="afterok:5510(unfulfilled)")], nodes("gn", 1, 2))
    cause = first(explain(snap, "1"), Cause.GATED, "wait")
    assert cause.clears_at == at("14:30")
    assert "in 3h" in cause.says
    assert "queue" in cause.says


def test_a11_the_owners_own_throttle():
    row = job("6100_[17-99%16]", reason="JobArrayTaskLimit", gpus=1, tasks=83, slurm_array_throttle=16)
    active = [job(f"6100_{i}", state="running", gpus=1, parent_id="6100", nodelist=["gn01"]) for i in range(1, 17)]
    cause = first(explain(snapshot([row, *active], nodes("gn", 1, 4)), row["id"]), Cause.GATED, "act")
    assert all(word in cause.says for word in ("83 tasks", "16 run", "%16"))
    assert cause.who_acts == "owner"
    assert "ArrayTaskThrottle" in cause.next_step


def test_a12_no_node_has_both_features():
    mixed = [
        node(f"gn{i}", slurm_features=None, labels=_features(words))
        for i, words in enumerate((["h100", "ib200"], ["a100", "ib400"]))
    ]
    for one in mixed:
        one.pop("slurm_features")
    cause = first(
        explain(snapshot([job("1", reason="BadConstraints", constraint="h100&ib400", priority=0.0)], mixed), "1"),
        Cause.NEVER_FITS,
        "never",
    )
    assert "h100&ib400" in cause.says
    assert "release 1" in cause.next_step


def _features(words):
    return [{"key": "feature", "value": word} for word in words]


def test_a13_a_qos_that_was_removed():
    snap = snapshot(
        [job("1", reason="InvalidQOS", qos="projx")], nodes("gn", 1, 2), rules=rules(qos=(SlurmQos(name="normal"),))
    )
    cause = first(explain(snap, "1"), Cause.BAD_REQUEST, "act")
    assert "projx" in cause.says
    assert "normal" in cause.counterfactual


def test_a14_licences():
    holder = job("8", state="running", slurm_licenses="solver:8", end_time=at("17:00"), nodelist=["gn01"])
    snap = snapshot(
        [holder, job("1", reason="Licenses", slurm_licenses="solver:4")],
        nodes("gn", 1, 4),
        rules=rules(licenses={"solver": (10.0, 8.0)}),
    )
    said = explain(snap, "1")
    cause = first(said, Cause.GATED, "wait")
    assert "asks 4" in cause.says
    assert "2 of 10" in cause.says
    assert cause.clears_at == at("17:00")
    assert "8 of lin" in texts(said)


def drained_rack():
    bad = [
        node(
            f"gn{i}",
            state="drained",
            state_raw="IDLE+DRAIN",
            reason="Kill task failed",
            reason_by="root",
            reason_time=at("2026-11-29T02:14"),
        )
        for i in range(21, 29)
    ]
    return snapshot([job("1", reason="Resources")], [*bad, *nodes("gn", 1, 8, used=8)])


def test_a15_a_drained_rack():
    cause = first(explain(drained_rack(), "1"), Cause.NODE_OUT, "act")
    assert all(word in cause.says for word in ("64 GPUs", "gn[21-28]", "Kill task failed", "root", "Sun 02:14"))
    assert cause.who_acts == "admin"
    assert cause.next_step.index("processes") < cause.next_step.index("resume gn[21-28]")


def test_a15_attention_names_the_rack_once():
    (item,) = [one for one in attention(drained_rack()) if one.severity == "fault"]
    assert "gn[21-28]" in item.what
    assert "64 GPUs lost" in item.what
    assert item.since == at("2026-11-29T02:14")


def test_a16_one_gpu_lost():
    bad = node(
        "gn33",
        state="drained",
        state_raw="IDLE+DRAIN+INVALID_REG",
        reason="gres/gpu count reported lower than configured (7 < 8)",
    )
    snap = snapshot([job("1", reason="ReqNodeNotAvail, UnavailableNodes:gn33", requested_nodes=["gn33"])], [bad])
    said = explain(snap, "1")
    first(said, Cause.DEVICE_FAULT, "act")
    assert "7 of 8" in texts(said)
    assert "Xid" in said.causes[0].next_step
    (item,) = [one for one in attention(snap) if one.severity == "fault"]
    assert "7 of 8" in item.what


def test_a16_no_gpu_at_all_is_a_driver():
    bad = node("gn33", state="drained", reason="gres/gpu count reported lower than configured (0 < 8)")
    first(
        explain(snapshot([job("1", reason="ReqNodeNotAvail, UnavailableNodes:gn33")], [bad]), "1"),
        Cause.DEVICE_NOT_OFFERED,
        "act",
    )


MIB = 2.0**20


def stranded():
    full = node("gn40", used=2, memory_bytes=1031000 * MIB, memory_allocated_bytes=1031000 * MIB, cpus_allocated=40.0)
    hog = job("500", state="running", gpus=2, cpus=40.0, memory_bytes=1031000 * MIB, nodelist=["gn40"], user="bo")
    return snapshot([hog, job("501", reason="Resources", gpus=4)], [full])


def test_a17_memory_strands_gpus():
    said = explain(stranded(), "501")
    cause = first(said, Cause.SHAPE_NO_FIT, "wait")
    assert "6 GPUs" in cause.says
    assert "memory" in cause.says
    assert "500" in texts(said)
    assert "125.9 GiB" in cause.next_step  # 1031000 MiB over 8 GPUs


def test_a17_is_a_waste_that_needs_a_person():
    (item,) = [one for one in attention(stranded()) if one.severity == "idle"]
    assert "6 GPUs" in item.what
    assert "500" in item.what


def fragments():
    small = [
        job(f"6{i}", state="running", gpus=1, nodelist=["gn53"], end_time=at(t))
        for i, t in enumerate(("14:00", "15:10", "16:20"))
    ]
    others = [
        job("70", state="running", gpus=5, nodelist=["gn51"], end_time=at("22:00")),
        job("71", state="running", gpus=4, nodelist=["gn52"], end_time=at("23:00")),
    ]
    return snapshot(
        [*small, *others, job("80", reason="Resources")],
        [node("gn51", used=5), node("gn52", used=4), node("gn53", used=3)],
    )


def test_a18_twelve_free_and_none_fits():
    said = explain(fragments(), "80")
    cause = first(said, Cause.SHAPE_NO_FIT, "wait")
    assert "12 of 24" in cause.says
    assert "largest block is 5 on gn53" in cause.says
    assert cause.clears_at == at("16:20")
    assert "at most 5 GPUs" in cause.counterfactual
    assert "2 nodes" in cause.counterfactual
    assert all(f"6{i}" in texts(said) for i in range(3))
    assert "70 " not in texts(said)


def debug_partition(asks, *, down=0):
    part = SlurmPartition(name="debug", max_nodes=16)
    listed = nodes("gn", 1, 50, partitions=["debug"])
    for one in listed[:down]:
        one |= {"state": "down", "reason": "Not responding"}
    return snapshot(
        [job("1", reason="PartitionNodeLimit", partition="debug", nodes=asks, gpus=8 * asks)],
        listed,
        rules=rules(partitions=(part,)),
    )


def test_a19_too_many_nodes():
    cause = first(explain(debug_partition(40), "1"), Cause.NEVER_FITS, "never")
    assert "40 nodes" in cause.says
    assert "16 nodes" in cause.says


def test_a19_within_the_limit_it_is_the_nodes_that_are_down():
    first(explain(debug_partition(12, down=45), "1"), Cause.NODE_OUT, "act")


def test_a20_the_own_reservation_has_not_begun():
    workshop = {
        "name": "workshop",
        "start_time": at("2026-12-02T09:00"),
        "end_time": at("2026-12-02T17:00"),
        "nodelist": ["gn01"],
        "state": "INACTIVE",
    }
    snap = snapshot(
        [job("1", reason="Reservation", slurm_reservation="workshop")], nodes("gn", 1, 2), reservations=[workshop]
    )
    cause = first(explain(snap, "1"), Cause.WINDOW, "wait")
    assert cause.clears_at == at("2026-12-02T09:00")
    assert "workshop" in cause.says


def test_a21_a_dead_database_leaves_unknown_not_zero():
    gap = Gap(
        source="sacct", reason="Connection refused", since=at("10:12"), affects=("usage", "queues.fairshare_ratio")
    )
    snap = snapshot([job("1", state="running", nodelist=["gn01"])], nodes("gn", 1, 1, used=8), gaps=(gap,))
    (item,) = [one for one in attention(snap) if one.severity == "stale"]
    assert "Connection refused" in item.what
    assert "usage" in item.what
    assert item.since == at("10:12")
    assert summarise(snap).running == 1


def test_a22_an_unread_job_list_is_no_idle_cluster():
    gap = Gap(source="squeue", reason="Unable to contact slurm controller", since=NOW, affects=("jobs",))
    figures = summarise(snapshot([], nodes("gn", 1, 1), gaps=(gap,)))
    assert (figures.running, figures.pending, figures.never) == (None, None, None)
    assert figures.gpus == 8


def test_a23_reason_none_is_unknown_with_its_past():
    previous = ("QOSMaxGRESPerUser", NOW - timedelta(minutes=4))
    said = explain(snapshot([job("1", reason="None")], nodes("gn", 1, 2)), "1", previous_reason=previous)
    cause = first(said, Cause.UNKNOWN, "unknown")
    assert "not looked at" in cause.says
    assert "QOSMaxGRESPerUser" in cause.says
    assert cause.evidence[-1].as_of == previous[1]


def test_a23_the_derived_quota_follows():
    snap = qos_full()
    snap = snap.with_tables(
        jobs=snap.jobs.with_columns(reason_raw=snap.jobs["reason_raw"].replace("QOSGrpGRES", "None"))
    )
    said = explain(snap, "77120")
    assert [c.cause for c in said.causes][:2] == [Cause.UNKNOWN, Cause.QUOTA_FULL]
    assert said.causes[1].stated_by == "derived"


def test_a24_held_after_failed_launches_in_both_spellings():
    for reason in ("launch_failed_requeued_held", "launch failed requeued held"):
        snap = snapshot([job("1", reason=reason, restarts=3, priority=0.0)], nodes("gn", 1, 2))
        cause = first(explain(snap, "1"), Cause.HELD, "act")
        assert "3 restarts" in cause.says
        assert cause.next_step.index("log") < cause.next_step.index("release 1")


def completing():
    done = job(
        "90",
        state="completing",
        gpus=32,
        nodes=4,
        nodelist=["gn60", "gn61", "gn62", "gn63"],
        end_time=NOW - timedelta(minutes=40),
    )
    return snapshot([done, job("91", reason="Resources")], nodes("gn", 60, 63, used=8))


def test_a25_ended_and_still_holding():
    cause = first(explain(completing(), "90"), Cause.HOLDING_AFTER_END, "act")
    assert all(word in cause.says for word in ("32 GPUs", "gn[60-63]", "40m"))


def test_a25_its_victim_is_told_who_holds_the_nodes():
    cause = first(explain(completing(), "91"), Cause.HOLDING_AFTER_END, "act")
    assert "90" in cause.says


def test_a25_just_ended_is_normal():
    done = job("90", state="completing", nodelist=["gn60"], end_time=NOW - timedelta(seconds=20))
    first(explain(snapshot([done], nodes("gn", 60, 60, used=8)), "90"), Cause.HOLDING_AFTER_END, "running")


def test_the_default_partition_of_these_cases_allows_two_days():
    assert TRAIN.max_time_s == 2 * 86400
