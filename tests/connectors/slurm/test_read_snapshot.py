"""A whole refresh: tables and rules of three versions, and every way in which a part of it can be missing."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import msgspec
import polars as pl
import pytest
from recordings import VERSIONS, job, live, recorded_raw, squeue_answer

from connectors.connector import Answer, Raw
from connectors.errors import Malformed, Unreachable
from connectors.model import SCHEMAS, Snapshot
from connectors.rules import SlurmRules
from connectors.slurm.accounting import read_assoc_mgr, used
from connectors.slurm.interpret import interpret


def changed(raw: Raw, **answers: Answer | None) -> Raw:
    """The same refresh with some answers replaced, or taken away (None)."""
    kept = {name: answer for name, answer in {**raw.answers, **answers}.items() if answer is not None}
    return msgspec.structs.replace(raw, answers=kept)


def edited(raw: Raw, name: str, old: str, new: str) -> Raw:
    answer = raw.answers[name]
    assert old.encode() in answer.out
    return changed(raw, **{name: msgspec.structs.replace(answer, out=answer.out.replace(old.encode(), new.encode()))})


def failed(asked: str, words: str, code: int = 1, out: bytes = b"") -> Answer:
    return Answer(asked=asked, code=code, out=out, err=words.encode())


def rules_of(snapshot: Snapshot) -> SlurmRules:
    assert isinstance(snapshot.rules, SlurmRules)
    return snapshot.rules


def quota(snapshot: Snapshot, queue: str, model: str | None = None) -> dict[str, float | None]:
    rows = snapshot.quotas.filter(
        (pl.col("queue") == queue) & (pl.col("resource") == "gpu") & pl.col("model").eq_missing(pl.lit(model))
    ).to_dicts()
    assert len(rows) == 1
    return {name: rows[0][name] for name in ("limit", "used", "pending")}


@pytest.mark.parametrize("version", [*VERSIONS, "live"])
def test_a_refresh_of_each_version(version: str) -> None:
    raw = live() if version == "live" else recorded_raw(version)
    snapshot = interpret(raw)
    unrecorded = {name for name in ("user", "admin", "excluded", "date") if name not in raw.answers}
    assert {gap.source for gap in snapshot.gaps} == unrecorded
    assert {gap.reason for gap in snapshot.gaps} <= {"there is no answer"}
    assert snapshot.meta.taken_at == raw.taken_at
    assert (snapshot.meta.version or "").startswith(version if version != "live" else "22.05")
    for name, schema in SCHEMAS.items():
        frame = snapshot.table(name)
        assert dict(frame.schema.items() & dict(schema).items()) == dict(schema)
        assert frame.columns[: len(schema)] == list(schema)
    assert snapshot.jobs["key"].n_unique() == len(snapshot.jobs)
    assert snapshot.queues["id"].n_unique() == len(snapshot.queues)
    assert len(snapshot.nodes) == 8
    assert len(snapshot.gpus) == 64
    assert snapshot.nodes["gpus"].sum() == 64.0
    queues = set(snapshot.queues["id"])
    assert set(snapshot.jobs["bound_by"].explode().unique()) <= queues
    assert set(snapshot.jobs["queue"].unique()) <= queues
    assert set(snapshot.quotas["queue"]) <= queues
    assert set(snapshot.queues["parent"].drop_nulls()) <= queues


@pytest.mark.parametrize("version", [*VERSIONS, "live"])
def test_use_counted_from_jobs_is_slurmctlds_own_figure(version: str) -> None:
    raw = live() if version == "live" else recorded_raw(version)
    snapshot = interpret(raw)
    own = read_assoc_mgr(raw.answers["assoc_mgr"].out.decode())
    compared = 0
    for name, words in own.qos.items():
        use = used(words["GrpTRES"])["gres/gpu"]
        if use:
            assert quota(snapshot, f"qos:{name}")["used"] == use
            compared += 1
    for (account, user, _partition), words in own.associations.items():
        if version == "26.05":
            break  # its recorded counters contradict themselves: research holds 42 GPUs, 36 of one kind and 8 of another
        use = used(words["GrpTRES"])["gres/gpu"]
        if use:
            assert quota(snapshot, f"assoc:{account}/{user}" if user else f"account:{account}")["used"] == use
            compared += 1
    assert compared >= 5


@pytest.mark.parametrize("version", VERSIONS)
def test_rules_of_each_version(version: str) -> None:
    rules = rules_of(interpret(recorded_raw(version)))
    assert (rules.cluster_name, rules.priority_type, rules.scheduler) == (
        "halcyon", "priority/multifactor", "sched/backfill",
    )  # fmt: skip
    assert (rules.weight_age, rules.weight_fairshare, rules.weight_job_size) == (1000, 10000, 500)
    assert (rules.weight_partition, rules.weight_qos, rules.weight_tres) == (2000, 5000, {"gres/gpu": 500})
    assert (rules.max_age_s, rules.decay_half_life_s) == (86400, 86400)
    assert set(rules.enforce) == {"associations", "limits", "qos"}
    assert (rules.preempt_type, rules.preempt_mode, rules.preempt_youngest_first) == ("preempt/qos", ("REQUEUE",), True)
    assert (rules.bf_interval_s, rules.bf_max_job_test, rules.bf_continue, rules.bf_window_s) == (3, 500, True, 86400)
    assert set(rules.gpu_types) == {"a100", "h100"}
    assert rules.max_array_size == 1001
    parts = {one.name: one for one in rules.partitions}
    assert parts["key"].allow_qos == ("key",)
    assert parts["key"].allow_accounts == ("research", "vision")
    assert parts["train"].allow_qos is None
    assert parts["train"].default
    assert parts["inference"].max_time_s == math.inf
    assert parts["interactive"].max_time_s == 4 * 3600
    assert parts["low"].nodes == tuple(f"gpu{number:02d}" for number in range(1, 9))
    assert rules.qos is not None
    qos = {one.name: one for one in rules.qos}
    assert qos["train"].grp_tres == {"gres/gpu": 24.0}
    assert qos["train"].preempt == ("low",)
    assert set(qos["key"].preempt) == {"low", "train"}
    assert (qos["interactive"].max_tres_per_user, qos["interactive"].max_jobs_per_user) == ({"gres/gpu": 2.0}, 2)
    assert qos["interactive"].max_wall_s == 4 * 3600
    assert qos["normal"].grp_tres == {}
    assert rules.associations is not None
    tree = {(one.account, one.user): one for one in rules.associations}
    assert tree["vision", ""].grp_tres == {"gres/gpu": 20.0}
    assert (tree["vision", ""].parent, tree["vision", ""].shares) == ("research", 30)
    assert tree["vision", "tomas"].grp_tres == {"gres/gpu": 4.0}
    assert set(tree["vision", "tomas"].qos) >= {"normal", "train"}
    assert tree["root", ""].parent is None
    assert tree["product", ""].level_fairshare is not None


def test_what_binds_a_job_runs_from_partition_to_root() -> None:
    snapshot = interpret(live())
    row = snapshot.jobs.filter(pl.col("name") == "notebook").to_dicts()[0]
    assert row["queue"] == "partition:interactive"
    assert row["bound_by"] == [
        "partition:interactive", "qos:interactive", "assoc:vision/tomas", "account:vision", "account:research",
        "account:root",
    ]  # fmt: skip
    assert quota(snapshot, "qos:train") == {"limit": 24.0, "used": 24.0, "pending": 4.0}
    assert quota(snapshot, "qos:train", "a100")["limit"] == math.inf


def test_the_qos_of_a_partition_binds_its_jobs() -> None:
    raw = edited(live(), "partition", "PartitionName=train", "PartitionName=train QoS=inference")
    row = interpret(raw).jobs.filter(pl.col("name") == "vlm-pretrain").to_dicts()[0]
    assert row["bound_by"][:3] == ["partition:train", "qos:inference", "qos:train"]


def test_an_array_counts_all_of_its_tasks() -> None:
    snapshot = interpret(live())
    low = snapshot.queues.filter(pl.col("id") == "partition:low").to_dicts()[0]
    rows = snapshot.jobs.filter(pl.col("slurm_partition") == "low").to_dicts()
    waiting = [row["tasks"] for row in rows if row["state"] == "pending"]
    assert 8 in waiting
    assert low["pending_jobs"] == sum(waiting)
    assert low["running_jobs"] == sum(row["state"] == "running" for row in rows)


def test_preemptible_is_read_from_the_lists_of_the_qos() -> None:
    jobs = interpret(live()).jobs
    by_qos = dict(jobs.select("slurm_qos", "preemptible").unique().iter_rows())
    assert by_qos == {
        "low": True, "train": True, "normal": False, "key": False, "interactive": False, "inference": False,
    }  # fmt: skip
    off = edited(live(), "config", "PreemptType             = preempt/qos", "PreemptType             = (null)")
    assert set(interpret(off).jobs["preemptible"]) == {False}
    tiers = edited(live(), "config", "= preempt/qos", "= preempt/partition_prio")
    parts = dict(interpret(tiers).jobs.select("slurm_partition", "preemptible").unique().iter_rows())
    assert parts["low"] is True
    assert parts["key"] is False


def test_nodes_and_devices() -> None:
    snapshot = interpret(live())
    nodes = {row["name"]: row for row in snapshot.nodes.to_dicts()}
    assert (nodes["gpu04"]["state"], nodes["gpu04"]["schedulable"]) == ("drained", False)
    # somebody gave a reason of two lines that looks like a node of its own
    assert nodes["gpu04"]["reason"] == "a|b=c NodeName=x\nNodeName=evil State=IDLE [x@1]"
    assert nodes["gpu04"]["reason_by"] == "root"
    assert nodes["gpu04"]["reason_time"] == datetime(2026, 11, 30, 22, 7, 54, tzinfo=UTC)
    assert (nodes["gpu07"]["gpu_model"], nodes["gpu07"]["gpus"], nodes["gpu07"]["gpus_allocated"]) == ("h100", 8, 8)
    assert nodes["gpu01"]["memory_bytes"] == 512000 * 2**20
    assert nodes["gpu01"]["partitions"] == ["interactive", "train", "key", "low"]
    assert nodes["gpu01"]["domain"] is None
    gpus = snapshot.gpus.filter(pl.col("node") == "gpu01").sort("index")
    assert gpus["state"].to_list() == ["allocated"] * 4 + ["free"] * 4
    assert gpus["job_ids"].to_list() == [None] * 4 + [[]] * 4  # four jobs share the node: whose is whose is not said
    alone = snapshot.gpus.filter(pl.col("node") == "gpu02")
    assert alone["job_ids"].to_list() == [["7"]] * 8
    event = snapshot.events.to_dicts()[0]
    assert (event["object"], event["level"]) == ("node:gpu04", "warning")


@pytest.mark.parametrize(
    ("gres", "gres_used", "state", "want"),
    [
        ("gpu:a100:2(S:0-1)", "gpu:a100:1(IDX:1)", "MIXED", ["free", "allocated"]),
        ("gpu:2", "gpu:(null):0(IDX:N/A)", "IDLE", ["free", "free"]),
        ("gpu:2", "gpu:1", "MIXED", ["unknown", "unknown"]),  # no device files: which one is in use is not said
        ("gpu:2", "gpu:2", "ALLOCATED", ["allocated", "allocated"]),
        ("gpu:2", "gpu:0", "DOWN+NOT_RESPONDING", ["unknown", "unknown"]),
        ("gpu:a100:1,gpu:h100:1", "gpu:a100:0(IDX:N/A),gpu:h100:1(IDX:1)", "MIXED", ["free", "allocated"]),
        ("(null)", "gpu:0", "IDLE", []),
    ],
)
def test_devices_in_use(gres: str, gres_used: str, state: str, want: list[str]) -> None:
    text = f"NodeName=n1 CPUTot=8\n   Gres={gres}\n   GresDrain=N/A\n   GresUsed={gres_used}\n   State={state}\n\n"
    raw = changed(live(), node=Answer(asked="scontrol", code=0, out=text.encode()))
    snapshot = interpret(raw)
    assert snapshot.gpus["state"].to_list() == want
    assert snapshot.nodes["schedulable"].to_list() == [False]  # in no partition
    assert snapshot.nodes["partitions"].to_list() == [[]]


def test_gpus_that_a_node_lost() -> None:
    words = "gres/gpu count reported lower than configured (6 < 8)"
    text = (
        "NodeName=n1 CPUTot=8\n   Gres=gpu:8\n   GresDrain=gpu:0\n   GresUsed=gpu:0\n   State=IDLE+DRAIN\n"
        f"   Reason={words} [slurm@1796000000]\n\n"
    )
    raw = changed(live(), node=Answer(asked="scontrol", code=0, out=text.encode()))
    node = interpret(raw).nodes.to_dicts()[0]
    assert (node["gpus_unusable"], node["reason"], node["reason_by"]) == (2.0, words, "slurm")


def test_nodes_that_cannot_be_read_are_counted() -> None:
    raw = live()
    twice = raw.answers["node"].out + b"NodeName=gpu01 CPUTot=1\n   State=IDLE\n\nNodeName=gpu99 CPUTot=1\n\n"
    snapshot = interpret(changed(raw, node=msgspec.structs.replace(raw.answers["node"], out=twice)))
    assert len(snapshot.nodes) == 8
    (gap,) = snapshot.gaps
    assert gap.reason == "2 of 10 rows could not be read, first: NodeName=gpu01"


def test_a_model_that_only_the_nodes_tell() -> None:
    rows = [job(tres__alloc="cpu=1,gres/gpu=16", tres__per__node="gres:gpu:8", nodelist="gpu[02-03]")]
    rows.append({**rows[0], "jobarrayid": "8", "nodelist": "gpu[06-07]"})
    jobs = interpret(changed(live(), squeue=squeue_answer(rows))).jobs
    assert jobs["gpu_model"].to_list() == ["a100", None]


# --- what can be missing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["squeue", "node", "partition"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failed("x", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"), "connect failure"),
        (Answer(asked="x", code=-1, out=b"half"), "broke off"),
        (failed("squeue -h", "sh: squeue: not found", 127), "not installed there"),
        (failed("x", "", 124), "no answer in time"),
        (failed("x", "", 1, b"printed, not said"), "printed, not said"),
        (None, "no answer"),
    ],
)
def test_without_jobs_nodes_or_partitions_there_is_nothing_to_show(
    name: str, answer: Answer | None, words: str
) -> None:
    with pytest.raises(Unreachable, match=words):
        interpret(changed(live(), **{name: answer}))


def test_what_is_not_slurms_output_is_malformed() -> None:
    with pytest.raises(Malformed, match="not what Slurm prints"):
        interpret(changed(live(), node=Answer(asked="x", code=0, out=b"Welcome to the cluster\n")))


DBD_DOWN = "sacctmgr: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:ctl01"


def test_slurmdbd_down_leaves_the_rest() -> None:
    down = {name: failed(f"sacctmgr -P -r show {name}", DBD_DOWN) for name in ("qos", "assoc", "admin")}
    snapshot = interpret(changed(live(), **down))
    whole = interpret(live())
    assert snapshot.jobs.drop("preemptible").equals(whole.jobs.drop("preemptible"))
    assert {gap.source for gap in snapshot.gaps} == {f"sacctmgr show {name}" for name in down}
    assert all("failed to open persistent connection" in gap.reason for gap in snapshot.gaps)
    rules = rules_of(snapshot)
    assert {one.name: one.grp_tres for one in rules.qos or ()}["train"] == {"gres/gpu": 24.0}
    assert {one.name: one.max_tres_per_user for one in rules.qos or ()}["interactive"] == {"gres/gpu": 2.0}
    assert quota(snapshot, "qos:train")["limit"] == 24.0


def test_assoc_mgr_not_permitted_falls_back_to_the_database() -> None:
    snapshot = interpret(changed(live(), assoc_mgr=failed("scontrol -o show assoc_mgr", "Access/permission denied")))
    (gap,) = snapshot.gaps
    assert (gap.source, gap.reason) == ("scontrol show assoc_mgr", "Access/permission denied")
    rules = rules_of(snapshot)
    assert {one.name: one.grp_tres for one in rules.qos or ()}["train"] == {"gres/gpu": 24.0}
    tree = {(one.account, one.user): one for one in rules.associations or ()}
    assert tree["vision", ""].grp_tres == {"gres/gpu": 20.0}
    assert (tree["vision", ""].parent, tree["vision", ""].shares) == ("research", 30)
    assert quota(snapshot, "qos:train") == {"limit": 24.0, "used": 24.0, "pending": 4.0}


def test_without_any_accounting_answer_rules_say_unknown() -> None:
    gone = {name: failed(name, "refused") for name in ("qos", "assoc", "admin", "assoc_mgr", "sshare")}
    snapshot = interpret(changed(live(), **gone))
    rules = rules_of(snapshot)
    assert (rules.qos, rules.associations) == (None, None)
    assert set(snapshot.jobs["preemptible"]) == {None}
    assert len(snapshot.gaps) == 5


def test_a_cluster_without_accounting_misses_nothing() -> None:
    raw = edited(live(), "config", "accounting_storage/slurmdbd", "accounting_storage/none")
    off = {name: failed(name, "accounting is off") for name in ("qos", "assoc", "admin", "assoc_mgr", "sshare")}
    snapshot = interpret(changed(raw, **off))
    assert snapshot.gaps == ()
    assert rules_of(snapshot).associations is None
    assert {row.partition(":")[0] for row in snapshot.queues["id"]} == {"partition"}


@pytest.mark.parametrize(
    ("name", "affects"),
    [
        ("config", "rules"), ("reservation", "reservations"), ("sshare", "queues.fairshare_ratio"),
        ("sprio", "jobs.slurm_priority_age"), ("excluded", "jobs.slurm_excluded_nodes"), ("date", "meta.clock_skew_s"),
        ("sdiag", "events"), ("user", "meta.user"), ("admin", "queues.writable"),
    ],
)  # fmt: skip
def test_each_lesser_answer_that_fails_is_one_gap(name: str, affects: str) -> None:
    snapshot = interpret(changed(live(), **{name: failed(name, "slurm_something error: Socket timed out")}))
    gaps = [gap for gap in snapshot.gaps if gap.reason == "slurm_something error: Socket timed out"]
    assert [affects in gap.affects for gap in gaps] == [True]
    assert len(snapshot.jobs) == len(interpret(live()).jobs)


def test_an_answer_that_is_no_table_is_a_gap() -> None:
    snapshot = interpret(
        changed(live(), qos=Answer(asked="sacctmgr -P show qos", code=0, out=b"Name|Priority\na|1|2\n"))
    )
    assert snapshot.gaps[0].reason == "its rows have not the columns of its header"
    broken = edited(live(), "config", "PriorityWeightAge       = 1000", "PriorityWeightAge       = many")
    (gap,) = interpret(broken).gaps
    assert "PriorityWeightAge" in gap.reason
    assert gap.affects == ("rules",)


def test_a_partition_that_cannot_be_read_is_malformed() -> None:
    with pytest.raises(Malformed, match="MaxNodes"):
        interpret(edited(live(), "partition", "MaxNodes=UNLIMITED", "MaxNodes=lots"))


def test_old_answers_are_shown_with_their_age() -> None:
    raw = live()
    notes = {**raw.notes, "stale:qos": "slurmdbd is down", "as_of:qos": "2026-11-30T21:00:00+00:00"}
    (gap,) = interpret(msgspec.structs.replace(raw, notes=notes)).gaps
    assert gap.reason == "slurmdbd is down; the answer of 2026-11-30T21:00:00+00:00 is shown"


def test_private_jobs_make_use_slurmctlds_own_figure() -> None:
    raw = edited(live(), "config", "PrivateData             = none", "PrivateData             = jobs,usage")
    everything = interpret(raw)
    assert everything.gaps == ()  # an administrator sees all
    plain = changed(
        raw,
        admin=Answer(asked="sacctmgr", code=0, out=b"mira|None|vision|\n"),
        user=Answer(asked="id -un", code=0, out=b"mira\n"),
        squeue=squeue_answer([job(jobarrayid="1", username="mira")]),
    )
    snapshot = interpret(plain)
    assert [gap.affects for gap in snapshot.gaps] == [("jobs",)]
    assert quota(snapshot, "qos:train")["used"] == 24.0
    assert set(snapshot.queues["writable"].list.len()) == {0}
    assert snapshot.meta.user == "mira"


@pytest.mark.parametrize(
    ("user", "row", "can", "cannot"),
    [
        ("opsadmin", "opsadmin|Administrator|research|", {"qos:train", "account:vision", "partition:train"}, set()),
        ("opsoper", "opsoper|Operator|research|", {"account:vision"}, {"qos:train", "partition:train"}),
        ("vcoord", "vcoord|None|vision|vision", {"assoc:vision/tomas"}, {"account:vision", "assoc:language/kenji"}),
        ("rcoord", "rcoord|None|research|research", {"assoc:vision/tomas"}, {"assoc:product/svcinfer"}),
        ("mira", "mira|None|vision|", set(), {"assoc:vision/mira", "qos:train"}),
        ("nobody", "", set(), {"qos:train"}),
        ("slurm", "", {"qos:train", "partition:train"}, set()),
    ],
)
def test_writable_follows_the_role(user: str, row: str, can: set[str], cannot: set[str]) -> None:
    raw = changed(
        live(),
        user=Answer(asked="id -un", code=0, out=f"{user}\n".encode()),
        admin=Answer(asked="sacctmgr", code=0, out=f"{row}\n".encode() if row else b""),
    )
    snapshot = interpret(raw)
    writable = {queue for queue, fields in snapshot.queues.select("id", "writable").iter_rows() if fields}
    assert can <= writable
    assert not cannot & writable


def test_the_clocks_are_compared() -> None:
    raw = live()
    ended = datetime.fromisoformat(raw.notes["ended_at"]).timestamp()
    ahead = changed(raw, date=Answer(asked="date", code=0, out=f"{ended + 90:.9f}\n".encode()))
    assert interpret(ahead).meta.clock_skew_s == 90.0
    whole = changed(raw, date=Answer(asked="date", code=0, out=f"{int(ended) - 30}.%N\n".encode()))
    assert interpret(whole).meta.clock_skew_s == pytest.approx(-30, abs=1)


def test_the_scheduler_says_when_it_stops_early() -> None:
    raw = live()
    calm = interpret(raw).events.filter(pl.col("source") == "sdiag")
    assert len(calm) == 0
    text = b"****\nsdiag output at Mon Nov 30\nDBD Agent queue size: 5000\n\tLast depth cycle: 8\nBackfilling stats\n\tLast depth cycle: 500\n"
    events = interpret(changed(raw, sdiag=Answer(asked="sdiag", code=0, out=text))).events
    found = events.filter(pl.col("source") == "sdiag").to_dicts()
    assert [(row["level"], row["reason"], row["count"]) for row in found] == [
        ("warning", "DBDAgentQueue", 5000), ("info", "BackfillDepth", 500),
    ]  # fmt: skip


def test_topology_gives_the_path_of_switches() -> None:
    text = b"SwitchName=top Level=1 LinkSpeed=1 Nodes=gpu[01-08] Switches=s[0-1]\n"
    text += b"SwitchName=s0 Level=0 Nodes=gpu[01-04]\nSwitchName=s1 Level=0 Nodes=gpu[05-08]\n"
    nodes = interpret(changed(live(), topology=Answer(asked="x", code=0, out=text))).nodes
    assert nodes.filter(pl.col("name") == "gpu06")["domain"].to_list() == [["top", "s1"]]


def test_licences() -> None:
    text = b"LicenseName=matlab Total=50 Used=12 Free=38 Reserved=0 Remote=no\n"
    rules = rules_of(interpret(changed(live(), licenses=Answer(asked="x", code=0, out=text))))
    assert rules.licenses == {"matlab": (50, 12)}


def test_interpret_is_pure() -> None:
    first, second = interpret(live()), interpret(live())
    assert first.meta == second.meta
    for name in SCHEMAS:
        assert first.table(name).equals(second.table(name))
    assert first.meta.taken_at == live().taken_at
