"""Plans: the commands, what they expect and leave behind, and their inverse."""

import math

import msgspec
import pytest
from hand_made import JOBS_NOW, NODES_NOW, NOW, QUOTAS_NOW, RESERVATIONS_NOW, at, changed, job, snapshot

from connectors.change import (
    Cancel,
    Drain,
    Expectation,
    Hold,
    Plan,
    Release,
    Reserve,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    StopQueue,
    Unreserve,
)
from connectors.errors import BadWords
from connectors.ground import moved
from connectors.language import only_changes, read
from connectors.slurm.plan import plan
from connectors.slurm.resolve import resolve

INF = math.inf


def planned(text: str, **tables) -> Plan:
    ground = snapshot(**tables)
    meant = [one for change in only_changes(read([text], now=NOW)) for one in resolve(change, ground)]
    made = plan(meant, ground)
    assert moved(made.expects, ground) == []  # a plan always stands on the ground it was made on
    assert [step.says for step in made.steps if not step.says] == []
    assert len(made.steps) == len(made.changes) == len(meant)
    assert (made.inverse is None) == (made.why_no_inverse is not None)
    return made


def argv(text: str, **tables) -> list[tuple[str, ...]]:
    return [step.argv for step in planned(text, **tables).steps]


QOS = "sacctmgr -i modify qos where name=train set"
ACCOUNT = "sacctmgr -i modify account where name=vision cluster=halcyon set"
RESERVE = "env TZ=UTC0 scontrol create reservation ReservationName=night StartTime=2026-12-01T20:00:00"
USER = "sacctmgr -i modify user where name=tomas account=vision cluster=halcyon set"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("quota qos:train gpus=28", f"{QOS} GrpTRES=gres/gpu=28"),
        ("quota qos:train gpus=0", f"{QOS} GrpTRES=gres/gpu=0"),
        ("quota qos:train gpus=unlimited", f"{QOS} GrpTRES=gres/gpu=-1"),
        ("quota qos:train gpus=8 model=h100 max_run=90m", f"{QOS} GrpTRES=gres/gpu:h100=8 MaxWall=90"),
        ("quota qos:train max_run=unlimited", f"{QOS} MaxWall=-1"),
        ("quota vision gpus=8 weight=5", f"{ACCOUNT} GrpTRES=gres/gpu=8 Fairshare=5"),
        ("quota tomas gpus=8 max_run=2h", f"{USER} GrpTRES=gres/gpu=8 MaxWall=120"),
        ("quota assoc:vision/parts/train gpus=8",
         f"{USER.replace('tomas', 'parts').removesuffix(' set')} partition=train set GrpTRES=gres/gpu=8"),
        ("quota partition:train max_run=2d", "scontrol update partitionname=train maxtime=2880"),
        ("quota partition:train weight=8", "scontrol update partitionname=train priorityjobfactor=8"),
        ("quota partition:train max_run=unlimited", "scontrol update partitionname=train maxtime=UNLIMITED"),
        ("hold 15", "scontrol hold 15"),
        ("hold 16", "scontrol hold 16_[2-9]"),
        ("hold 16_4", "scontrol hold 16_4"),
        ("release 37", "scontrol release 37"),
        ("cancel 38+1", "scancel 38"),
        ("requeue 7", "scontrol requeue 7"),
        ("priority 15 value=50000", "scontrol update jobid=15 priority=50000"),
        ("resume gpu04", "scontrol update nodename=gpu04 state=resume"),
        ("stop partition:train", "scontrol update partitionname=train state=DOWN"),
        ("start low", "scontrol update partitionname=low state=UP"),
        ("unreserve vision-eval", "scontrol delete reservationname=vision-eval"),
        ("reserve night start=2026-12-01T20:00 end=now+2d nodes=gpu02,gpu01 users=a,b accounts=x flags=FLEX",
         f"{RESERVE} EndTime=2026-12-02T20:00:00 Nodes=gpu[01-02] Users=a,b Accounts=x Flags=FLEX"),
    ],
)  # fmt: skip
def test_the_commands(text, command) -> None:
    assert argv(text) == [tuple(command.split(" "))]


@pytest.mark.parametrize(
    ("reason", "sent"),
    [
        ("bad fan", "reason=bad fan"),
        ("$(reboot); 'x' `y` | a=b", "reason=$(reboot); 'x' `y` | a=b"),
        ('"a" and "b"', 'reason=""a" and "b""'),
        ('a "b"', 'reason="a "b""'),
    ],
)
def test_a_reason_is_one_argument_and_keeps_its_quotation_marks(reason, sent) -> None:
    made = plan([Drain(nodes=("gpu02", "gpu01", "gpu03"), reason=reason)], snapshot())
    assert made.steps[0].argv == ("scontrol", "update", "nodename=gpu[01-03]", "state=drain", sent)


def test_what_is_typed_reads_back_as_the_arguments() -> None:
    import shlex

    made = planned("drain gpu[01-02] reason='$(x); \"y\"'; quota qos:train gpus=28")
    assert [tuple(shlex.split(step.native)) for step in made.steps] == [step.argv for step in made.steps]


@pytest.mark.parametrize(
    "change",
    [
        SetQuota(queue="qos:", limit=1),
        SetQuota(queue="qos:a,b", limit=1),
        SetQuota(queue="qos:-x", limit=1),
        SetQuota(queue="account:a b", limit=1),
        SetQuota(queue="assoc:vision/", limit=1, max_run_s=60),
        SetQuota(queue="qos:train", limit=1, model="h100,cpu"),
        StopQueue(queue="partition:"),
        StopQueue(queue="partition:a;b"),
        Unreserve(name=""),
        Drain(nodes=("gpu01,gpu02",), reason="x"),
        Reserve(name="n", start=at(1), end=at(2), nodes=("gpu01",), users=("a,b",)),
    ],
)
def test_no_command_is_made_for_a_name_that_is_none_or_several(change) -> None:
    with pytest.raises(BadWords, match="can't be given to Slurm safely"):
        plan([change], snapshot())


@pytest.mark.parametrize(
    "change",
    [
        SetQuota(queue="qos:train", limit=1.5),
        SetQuota(queue="qos:train", limit=-1.0),
        SetQuota(queue="qos:train", max_run_s=90),
        SetQuota(queue="partition:train"),
        SetQuota(queue="partition:train", limit=8, max_run_s=60),
        Drain(nodes=(), reason="x"),
        Reserve(name="n", start=at(1), end=at(2), nodes=(), users=("a",)),
        Reserve(name="n", start=at(1), end=at(2), nodes=("gpu01",)),
    ],
)
def test_no_command_is_made_of_what_was_not_resolved(change) -> None:
    with pytest.raises(ValueError, match=r".+"):
        plan([change], snapshot())


def test_nothing_is_no_plan() -> None:
    with pytest.raises(BadWords, match="nothing to plan"):
        plan([], snapshot())


def limit(queue: str, value: float, model: str = "", *, or_gone: bool = False) -> Expectation:
    return Expectation(table="quotas", key=f"{queue}|gpu|{model}", column="limit", value=value, or_gone=or_gone)


def test_a_limit_stands_on_the_present_one_and_goes_back_to_it() -> None:
    made = planned("quota qos:train gpus=28")
    assert made.expects == (limit("qos:train", 24.0),)
    assert made.results == made.steps[0].results == (limit("qos:train", 28.0),)
    assert made.inverse == made.steps[0].undo == (SetQuota(queue="qos:train", limit=24.0),)
    assert made.steps[0].says == "set of qos:train: GPU limit from 24 to 28"
    assert made.notes == ("the other limits of qos:train stay as they are: cpu=512",)


def test_a_limit_where_there_was_none_goes_back_to_none() -> None:
    for text, key in (("quota language gpus=8", "account:language"), ("quota qos:normal gpus=8", "qos:normal")):
        made = planned(text)
        assert made.expects == (limit(key, INF, or_gone=True),)  # the row is there only while the queue is in use
        assert made.inverse == (SetQuota(queue=key, limit=INF),)
    back = plan(made.inverse, snapshot(quotas=(*QUOTAS_NOW, {"queue": "qos:normal", "resource": "gpu", "limit": 8.0})))
    assert back.results == (limit("qos:normal", INF, or_gone=True),)


def test_a_limit_of_one_model() -> None:
    made = planned("quota qos:train gpus=8 model=h100")
    assert made.expects == (limit("qos:train", INF, "h100", or_gone=True),)
    assert made.results == (limit("qos:train", 8.0, "h100"),)
    assert made.inverse == (SetQuota(queue="qos:train", limit=INF, model="h100"),)
    assert "a limit of one model counts only jobs that name the model" in made.notes


def test_a_figure_that_is_not_known_has_no_way_back() -> None:
    made = planned("quota assoc:language/parent gpus=4 max_run=1h")
    assert made.inverse is None
    assert made.why_no_inverse == "the present GPU limit, longest run of assoc:language/parent is not known"
    assert planned("quota qos:normal gpus=4", rules=None).inverse is None
    missing = planned("quota qos:normal gpus=4", rules=None).expects
    assert missing == (Expectation(table="quotas", key="qos:normal|gpu|", column="", exists=False),)


def test_several_figures_are_one_step() -> None:
    made = planned("quota vision gpus=16 weight=5 max_run=2h")
    assert {(item.table, item.column, item.value) for item in made.expects} == {
        ("quotas", "limit", 20.0), ("queues", "weight", 30.0), ("queues", "max_run_s", INF),
    }  # fmt: skip
    assert made.inverse == (SetQuota(queue="account:vision", limit=20.0, weight=30.0, max_run_s=INF),)
    assert any("below the present use of 17" in note for note in made.notes)


def test_a_figure_that_is_so_already_is_said() -> None:
    assert "GPU limit of qos:train is so already" in planned("quota qos:train gpus=24").notes


def test_changes_keep_their_order_and_the_inverse_runs_the_other_way() -> None:
    made = planned("quota qos:train gpus=28; hold 15; quota qos:train gpus=30")
    assert made.inverse == (
        SetQuota(queue="qos:train", limit=28.0), Release(job="15"), SetQuota(queue="qos:train", limit=24.0),
    )  # fmt: skip
    assert limit("qos:train", 24.0) in made.expects
    assert limit("qos:train", 28.0) not in (*made.expects, *made.results)
    assert limit("qos:train", 30.0) in made.results
    assert [step.results[0].value for step in made.steps] == [28.0, 0.0, 30.0]


def test_of_one_job_or_node_only_the_last_step_is_read_back() -> None:
    made = planned("hold 15; cancel 15")
    assert {item.column for item in made.results} == {"state"}
    assert {(item.column, item.value, item.is_not) for item in made.expects} == {
        ("user", "mira", False), ("name", "job-15", False), ("state", "pending", False), ("priority", 0.0, True),
    }  # fmt: skip
    assert made.inverse is None
    assert made.steps[0].undo == (Release(job="15"),)


def test_a_job_must_still_be_the_same_job() -> None:
    made = planned("cancel 15")
    ground = snapshot(jobs=changed(JOBS_NOW, "key", "15", user="anouk", name="other"))
    assert moved(made.expects, ground) == [
        "job 15 user: expected mira, found anouk", "job 15 name: expected job-15, found other",
    ]  # fmt: skip
    assert moved(made.expects, snapshot(jobs=())) == ["job 15: is gone"] * 3


def test_cancel_is_content_with_a_job_that_ended_or_is_gone() -> None:
    made = planned("cancel 15")
    for rows in ((), (job("15", "cancelled"),), (job("15", "succeeded"),), (job("15", "completing"),)):
        assert moved(made.results, snapshot(jobs=rows)) == []
    for state in ("pending", "running", "suspended"):
        assert moved(made.results, snapshot(jobs=(job("15", state),))) != []
    assert made.inverse is None
    assert "submitted again" in made.why_no_inverse


def test_the_waiting_tasks_of_an_array_must_be_the_same_tasks() -> None:
    made = planned("cancel 16")
    assert Expectation(table="jobs", key="16", column="id", value="16_[2-9%2]") in made.expects
    later = snapshot(jobs=changed(JOBS_NOW, "key", "16", id="16_[3-9%2]"))
    assert moved(made.expects, later) == ["job 16 id: expected 16_[2-9%2], found 16_[3-9%2]"]
    assert any("those that run are left alone" in note for note in made.notes)


def test_one_waiting_task_is_cancelled_when_its_array_waits_without_it() -> None:
    made = planned("cancel 16_4")
    assert made.steps[0].argv == ("scancel", "16_4")
    assert moved(made.results, snapshot()) != []
    assert moved(made.results, snapshot(jobs=changed(JOBS_NOW, "key", "16", id="16_[2-3,5-9%2]"))) == []


def test_a_hold_of_one_folded_task_can_t_be_read_back_and_says_so() -> None:
    for text in ("hold 16_4", "release 39_2", "priority 16_4 value=5"):
        made = planned(text)
        assert made.results == ()
        assert any("squeue folds" in note for note in made.notes)
    assert planned("hold 16").results != ()


def test_hold_and_release_undo_each_other() -> None:
    held, released = planned("hold 15"), planned("release 36")
    assert (held.inverse, released.inverse) == ((Release(job="15"),), (Hold(job="36"),))
    assert moved(held.results, snapshot(jobs=(job("15", priority=0.0),))) == []
    assert moved(held.results, snapshot(jobs=(job("15", priority=5.0),))) != []
    assert moved(held.results, snapshot(jobs=(job("15", "running", priority=0.0),))) != []  # it started just before
    assert moved(released.results, snapshot(jobs=(job("36", priority=5.0),))) == []
    assert moved(released.results, snapshot(jobs=(job("36", priority=0.0),))) != []
    assert "an administrator's hold: the owner can't release it" in held.notes
    assert any("its owner held it" in note for note in released.notes)
    assert planned("hold 15", user="mira").notes == ()


def test_a_priority_is_not_taken_back() -> None:
    made = planned("priority 15 value=50000")
    assert made.inverse is None
    assert "hold and release" in made.why_no_inverse
    assert made.changes == (SetPriority(job="15", value=50000.0),)
    assert moved(made.results, snapshot(jobs=(job("15", priority=50000.0),))) == []


def test_requeue_waits_again_or_is_still_ending() -> None:
    made = planned("requeue 7")
    for state, fine in (("pending", True), ("completing", True), ("running", False), ("failed", False)):
        assert (moved(made.results, snapshot(jobs=(job("7", state),))) == []) is fine


def test_drain_goes_back_to_service_or_to_the_old_reason() -> None:
    made = planned("drain gpu01,gpu04,gpu02 reason=fan")
    assert made.inverse == (
        Resume(nodes=("gpu01", "gpu02")), Drain(nodes=("gpu04",), reason="ECC errors, ticket 4711"),
    )  # fmt: skip
    busier = changed(NODES_NOW, "name", "gpu01", state="allocated")
    assert moved(made.expects, snapshot(nodes=busier)) == []  # a node that serves may serve more
    drained = changed(NODES_NOW, "name", "gpu01", state="draining", reason="other")
    assert moved(made.expects, snapshot(nodes=drained)) == [
        "gpu01 state: expected not draining or drained or down, found draining",
        "gpu01 reason: expected nothing, found other",
    ]
    after = changed(changed(changed(NODES_NOW, "name", "gpu01", state="draining", reason="fan"), "name", "gpu04",
                            reason="fan"), "name", "gpu02", state="drained", reason="fan")  # fmt: skip
    assert moved(made.results, snapshot(nodes=after)) == []


def test_a_node_that_was_down_can_t_be_put_back_down() -> None:
    assert planned("drain gpu08 reason=fan").inverse is None
    made = planned("resume gpu04,gpu08")
    assert made.inverse is None
    assert "gpu08 can only be drained again" in made.why_no_inverse
    assert made.notes == ("gpu08 does not answer: it will be down again unless its slurmd comes back",)


def test_resume_goes_back_to_the_drain_with_its_reason() -> None:
    made = planned("resume gpu04")
    assert made.inverse == (Drain(nodes=("gpu04",), reason="ECC errors, ticket 4711"),)
    assert moved(made.results, snapshot()) != []
    assert moved(made.results, snapshot(nodes=changed(NODES_NOW, "name", "gpu04", state="idle"))) == []
    nameless = changed(NODES_NOW, "name", "gpu04", reason=None)
    assert planned("resume gpu04", nodes=nameless).inverse is None


def test_steps_on_one_node_follow_each_other() -> None:
    made = plan([Drain(nodes=("gpu01",), reason="fan"), Resume(nodes=("gpu01",))], snapshot())
    assert made.inverse == (Drain(nodes=("gpu01",), reason="fan"), Resume(nodes=("gpu01",)))
    assert [(item.column, item.is_not) for item in made.results] == [("state", True)]
    again = plan([Resume(nodes=("gpu04",)), Drain(nodes=("gpu04",), reason="fan")], snapshot())
    assert again.inverse == (Resume(nodes=("gpu04",)), Drain(nodes=("gpu04",), reason="ECC errors, ticket 4711"))
    assert {item.column for item in again.expects} == {"state", "reason"}


def test_a_partition_goes_back_only_to_what_the_language_can_say() -> None:
    assert planned("stop partition:train").inverse == (StartQueue(queue="partition:train"),)
    assert planned("start low").inverse == (StopQueue(queue="partition:low"),)
    made = planned("stop old")
    assert made.inverse is None
    assert "DRAIN" in made.why_no_inverse
    assert any("may still be submitted" in note for note in made.notes)
    assert planned("stop partition:train", rules=None).inverse is None
    ground = snapshot()
    both = plan([StopQueue(queue="partition:train"), StartQueue(queue="partition:train")], ground)
    assert both.inverse == (StopQueue(queue="partition:train"), StartQueue(queue="partition:train"))
    assert [item.value for item in both.results] == ["open"]


def test_a_reservation_is_read_back_whole_and_dropped_again() -> None:
    made = planned("reserve night start=now+5h end=now+9h gpus=16 model=a100 users=mira")
    assert made.inverse == (Unreserve(name="night"),)
    assert made.steps[0].says == (
        "reserve gpu[01,05] (16 GPUs) for mira from 2026-12-01T01:00:00Z to 2026-12-01T05:00:00Z"
    )
    assert Expectation(table="reservations", key="night", column="", exists=False) in made.expects
    row = {"name": "night", "start_time": at(5), "end_time": at(9), "nodelist": ["gpu01", "gpu05"], "users": ["mira"]}
    assert moved(made.results, snapshot(reservations=(row,))) == []
    for wrong in ({"start_time": at(4)}, {"nodelist": ["gpu01"]}, {"users": ["mira", "x"]}):
        assert len(moved(made.results, snapshot(reservations=(row | wrong,)))) == 1
    assert len(moved(made.results, snapshot(reservations=()))) == 4
    gone = changed(NODES_NOW, "name", "gpu01", state="down")
    assert moved(made.expects, snapshot(nodes=gone)) == [
        "gpu01 state: expected not draining or drained or down, found down"
    ]


def test_what_is_in_the_way_of_named_nodes_is_said() -> None:
    made = planned("reserve night start=now+1h end=now+3h nodes=gpu02,gpu06 users=a accounts=b")
    said = " ".join(made.notes)
    for way in ("gpu02: job 7 runs until", "gpu06: job 10 runs", "gpu06: is in reservation vision-eval"):
        assert way in said
    assert "IGNORE_JOBS is not used" in said
    assert "must match both" in said
    forced = planned("reserve night start=now+1h end=now+3h nodes=gpu02 users=a flags=IGNORE_JOBS")
    assert "left alone (IGNORE_JOBS)" in " ".join(forced.notes)


def test_two_reservations_of_one_plan_must_not_refuse_each_other() -> None:
    ground = snapshot()
    one = Reserve(name="a", start=at(1), end=at(2), nodes=("gpu01", "gpu02"), users=("x",))
    other = Reserve(name="b", start=at(1), end=at(2), nodes=("gpu02",), users=("x",))
    with pytest.raises(BadWords, match="would both take gpu02"):
        plan([one, other], ground)
    assert len(plan([one, msgspec.structs.replace(other, start=at(2), end=at(3))], ground).steps) == 2


def test_a_dropped_reservation_comes_back_as_it_was() -> None:
    made = planned("unreserve vision-eval")
    again = Reserve(name="vision-eval", start=at(2), end=at(4), nodes=("gpu06",), accounts=("vision",))
    assert made.inverse == (again,)
    later = changed(RESERVATIONS_NOW, "name", "vision-eval", end_time=at(5))
    assert moved(made.expects, snapshot(reservations=later)) == [
        "reservation vision-eval end_time: expected 2026-12-01T00:00:00Z, found 2026-12-01T01:00:00Z"
    ]
    assert moved(made.results, snapshot(reservations=())) == []
    assert moved(made.results, snapshot()) != []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"accounts": []}, "groups or partitions"),
        ({"gpus": 4.0}, "part of its nodes"),
        ({"end_time": None}, "not known"),
        ({"nodelist": []}, "not known"),
        ({"users": ["-mira"]}, "excludes"),
    ],
)
def test_a_reservation_that_the_language_can_t_say_does_not_come_back(more, why) -> None:
    made = planned("unreserve vision-eval", reservations=changed(RESERVATIONS_NOW, "name", "vision-eval", **more))
    assert made.inverse is None
    assert why in made.why_no_inverse


def test_the_jobs_of_a_dropped_reservation_are_named() -> None:
    inside = (job("70", "running", slurm_reservation="vision-eval"), job("71", slurm_reservation="vision-eval"),
              job("72", "cancelled", slurm_reservation="vision-eval"), job("73", slurm_reservation="other"))  # fmt: skip
    assert planned("unreserve vision-eval", jobs=inside).notes == (
        "jobs run in it or wait for it, so Slurm will refuse: 70, 71",
    )


def test_a_plan_survives_the_pipe() -> None:
    made = planned("quota qos:train gpus=28; drain gpu01 reason=fan; reserve n start=now+5h end=now+6h nodes=gpu02")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Plan) == made
    assert made.changes[0] == SetQuota(queue="qos:train", limit=28.0)
    assert Cancel(job="1") not in made.changes
