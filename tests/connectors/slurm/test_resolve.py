"""What changes mean on Slurm, and which make no sense there."""

import math
from datetime import timedelta

import msgspec
import pytest
from hand_made import HOUR, JOBS_NOW, NODES_NOW, NOW, RESERVATIONS_NOW, RULES, at, changed, job, snapshot

from connectors.change import Cancel, Hold, Reserve, SetQuota
from connectors.connector import Gap
from connectors.errors import Ambiguous, BadWords, ConnectorError, NotFound, Unsupported
from connectors.language import read_one, write
from connectors.slurm.resolve import resolve
from connectors.slurm.targets import native_job


def resolved(text: str, **tables):
    return resolve(read_one(text, now=NOW), snapshot(**tables))


def words(text: str, **tables) -> list[str]:
    return [write(change) for change in resolved(text, **tables)]


def refused(error, text: str, **tables) -> str:
    with pytest.raises(error) as caught:
        resolved(text, **tables)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("quota qos:train gpus=28", "quota qos:train limit=28"),
        ("quota qos:train limit=28", "quota qos:train limit=28"),
        ("quota normal gpus=unlimited", "quota qos:normal limit=unlimited"),
        ("quota vision gpus=8 model=h100", "quota account:vision limit=8 model=h100"),
        ("quota tomas gpus=8", "quota assoc:vision/tomas limit=8"),
        ("quota vision/tomas gpus=8 max_run=2h weight=5", "quota assoc:vision/tomas limit=8 weight=5 max_run=2h"),
        ("quota partition:train max_run=90m", "quota partition:train max_run=1h30m"),
        ("stop partition:train", "stop partition:train"),
        ("start low", "start partition:low"),
        ("start old", "start partition:old"),
        ("unreserve vision-eval", "unreserve vision-eval"),
        ("resume gpu04,gpu08,gpu04", "resume 'gpu[04,08]'"),
        ("drain gpu[02-03] reason=' bad fan '", "drain 'gpu[02-03]' 'reason=bad fan'"),
        ("drain gpu04 reason=other", "drain gpu04 reason=other"),
        ("hold 15", "hold 15"),
        ("hold 16", "hold '16_[2-9%2]'"),
        ("hold '16_[2-9%2]'", "hold '16_[2-9%2]'"),
        ("hold 16_4", "hold 16_4"),
        ("cancel 16_0", "cancel 16_0"),
        ("cancel 19", "cancel 19_3"),
        ("hold 38+1", "hold 38"),
        ("release 36", "release 36"),
        ("release 39_2", "release 39_2"),
        ("hold 39", "hold '39_[1-3]'"),
        ("requeue 7", "requeue 7"),
        ("requeue 10", "requeue 10"),
        ("priority 15 value=4294967293", "priority 15 value=4294967293"),
    ],
)
def test_what_a_change_means(text, meant) -> None:
    assert words(text) == [meant]


def test_what_a_change_means_means_the_same_again() -> None:
    for text in ("quota train/x gpus=1", "quota vision gpus=8", "hold 16", "drain gpu01 reason=x", "stop train"):
        try:
            first = resolved(text)
        except (Ambiguous, NotFound):
            continue
        assert [again for change in first for again in resolve(change, snapshot())] == list(first)


def test_some_tasks_of_an_array_are_each_a_change() -> None:
    assert resolved("cancel '16_[2,4-5]'") == (Cancel(job="16_2"), Cancel(job="16_4"), Cancel(job="16_5"))
    assert refused(NotFound, "cancel '16_[2,10]'").startswith("no such job on lab: '16_10'")


def test_a_bare_name_of_several_kinds_is_ambiguous() -> None:
    with pytest.raises(Ambiguous) as caught:
        resolved("quota train gpus=28")
    assert caught.value.candidates == ("partition:train", "qos:train")
    with pytest.raises(Ambiguous) as caught:
        resolved("cancel 18")
    assert caught.value.candidates == ("18_0", "18_1")


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("quota qos:trian gpus=28", ("qos:train",)),
        ("drain gpu1 reason=x", ("gpu01",)),
        ("unreserve visioneval", ("vision-eval",)),
        ("hold 17", ("7",)),
        ("hold nonsense", ()),
        ("hold 16_1", ("16_0",)),
        ("hold 99+0", ()),
    ],
)
def test_a_name_that_is_not_there_is_exit_3_with_what_comes_near(text, near) -> None:
    with pytest.raises(NotFound) as caught:
        resolved(text)
    assert caught.value.exit_code == 3
    assert set(near) <= set(caught.value.near)


def test_a_table_that_could_not_be_read_is_never_no_such_thing() -> None:
    gap = Gap(source="squeue", reason="broke off", since=NOW, affects=("jobs",))
    with pytest.raises(ConnectorError, match="could not be read") as caught:
        resolved("hold 4711", gaps=(gap,))
    assert caught.value.exit_code == 4
    with pytest.raises(NotFound):
        resolved("hold 4711", gaps=(msgspec.structs.replace(gap, affects=("jobs.priority",)),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quota qos:train nominal=8", "guarantees no share"),
        ("quota qos:train borrow=8", "borrow nothing"),
        ("quota qos:train lend=8", "lend nothing"),
        ("quota qos:train limit=8 resource=cpu", "not of 'cpu'"),
        ("quota qos:train weight=8", "a QOS has no weight"),
        ("quota partition:train gpus=8", "quota qos:train gpus=..."),
        ("quota partition:low gpus=8", "partitions have none"),
        ("quota assoc:vision/parts gpus=8", "associations by partition"),
        ("stop qos:train", "quota qos:train gpus=0"),
        ("start account:vision", "only partitions can"),
    ],
)
def test_what_slurm_has_no_word_for_is_unsupported(text, said) -> None:
    assert said in refused(Unsupported, text)


def test_an_association_by_partition_is_named_with_it() -> None:
    assert words("quota assoc:vision/parts/train gpus=8") == ["quota assoc:vision/parts/train limit=8"]


def test_an_account_needs_slurms_own_name_of_the_cluster() -> None:
    nameless = msgspec.structs.replace(RULES, cluster_name=None)
    for rules in (nameless, None):
        assert "on every cluster" in refused(Unsupported, "quota vision gpus=8", rules=rules)
        assert words("quota qos:train gpus=8", rules=rules) == ["quota qos:train limit=8"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quota qos:train gpus=8 limit=9", "can't differ"),
        ("quota qos:train gpus=1.5", "whole number"),
        ("quota qos:train gpus=9999999999", "whole number"),
        ("quota vision weight=1.5", "whole number"),
        ("quota qos:train max_run=90s", "whole minutes"),
        ("quota qos:train max_run=0s", "whole minutes"),
        ("quota qos:train max_run=2h model=h100", "model= goes with gpus="),
        ("quota 'assoc:vision/odd one' gpus=8", "can't be given to Slurm safely"),
        ("quota partition:train weight=65534", "at most 65533"),
        ("hold 7", "running: only a waiting job"),
        ("hold 12", "succeeded: only a waiting job"),
        ("hold 36", "held already (JobHeldUser)"),
        ("hold 20", "cut the tasks"),
        ("hold 15.batch", "is a step"),
        ("hold '16_[0-999]'", "more than 64 tasks"),
        ("release 15", "not held; it waits for Resources"),
        ("release 7", "running: only a waiting job"),
        ("cancel 12", "ended already: succeeded"),
        ("cancel 11", "ending already"),
        ("requeue 15", "pending: only a running job"),
        ("requeue 12", "succeeded: only a running job"),
        ("priority 15 value=0", "priority 0 is a hold"),
        ("priority 15 value=1.5", "whole numbers"),
        ("priority 15 value=4294967294", "whole numbers"),
        ("priority 7 value=5", "running: only a waiting job"),
        ("drain gpu04 reason='ECC errors, ticket 4711'", "drained already, for that reason"),
        ("drain gpu01 reason='a\nb'", "one plain line"),
        ("drain gpu01 reason=none", "no reason that Slurm can keep"),
        ("resume gpu01,gpu04", "gpu01 is mixed"),
        ("stop low", "stopped already"),
        ("start partition:train", "open already"),
    ],
)
def test_what_makes_no_sense_here_is_exit_2(text, said) -> None:
    assert said in refused(BadWords, text)


def test_a_model_that_slurm_does_not_count_is_not_found() -> None:
    assert "a100, h100" in refused(NotFound, "quota qos:train gpus=8 model=v100")


def reserve(more: str, **tables) -> Reserve:
    (change,) = resolved(f"reserve night start=now+1h end=now+3h {more}", **tables)
    assert isinstance(change, Reserve)
    assert change.gpus is None
    return change


def test_a_reservation_takes_whole_nodes_that_will_be_free() -> None:
    # gpu02 and gpu03 run until +2h, gpu05 until +0.5h, gpu01 until +0.2h (what is ending there is passed over),
    # gpu06 has a job without a known end, gpu04 is drained
    assert reserve("gpus=8 model=a100").nodes == ("gpu01",)
    assert reserve("gpus=9 model=a100").nodes == ("gpu01", "gpu05")
    (later,) = resolved("reserve night start=now+5h end=now+9h gpus=20 model=a100")
    assert later.nodes == ("gpu01", "gpu02", "gpu05")


def test_too_few_free_nodes_say_what_is_in_the_way() -> None:
    said = refused(Unsupported, "reserve night start=now+1h end=now+3h gpus=24 model=a100")
    assert "only 16 of 24 a100 GPUs, on 2 whole nodes" in said
    for way in ("gpu02: job 7 runs until 2026-11-30T22:00:00Z", "gpu04: is drained", "gpu06: job 10 runs without"):
        assert way in said
    said = refused(Unsupported, "reserve night start=now+1h end=now+3h gpus=8 model=h100")
    assert "gpu07: job 9 runs without a time limit" in said
    assert "gpu08: is down" in said


def test_another_reservation_is_in_the_way_only_at_its_time() -> None:
    free = changed(JOBS_NOW, "id", "10", nodelist=[])
    only = tuple(row for row in NODES_NOW if row["name"] in {"gpu06", "gpu08"})
    assert "gpu06: is in reservation vision-eval" in refused(
        Unsupported, "reserve night start=now+1h end=now+3h gpus=8", jobs=free,
        nodes=changed(only, "name", "gpu08", gpu_model="a100"),
    )  # fmt: skip
    for span in ("start=now+1h end=now+2h", "start=now+4h end=now+5h"):
        (change,) = resolved(f"reserve night {span} gpus=8 model=a100", jobs=free, nodes=only)
        assert change.nodes == ("gpu06",)


def test_the_best_fit_of_nodes_of_several_sizes() -> None:
    nodes = tuple(
        {"name": name, "state": "idle", "gpu_model": "a100", "gpus": gpus, "gpus_unusable": lost}
        for name, gpus, lost in (("a", 4.0, None), ("b", 8.0, 0.0), ("c", 8.0, 1.0), ("d", 2.0, 2.0), ("e", 8.0, None))
    )
    for gpus, wanted in ((1, "a"), (4, "a"), (5, "c"), (8, "b"), (12, "ab"), (16, "be"), (18, "abe"), (27, "abce")):
        assert "".join(reserve(f"gpus={gpus}", nodes=nodes, jobs=(), reservations=()).nodes) == wanted
    assert "only 27 of 28 GPUs, on 4 whole nodes" in refused(
        Unsupported, "reserve n start=now+1h end=now+3h gpus=28", nodes=nodes, jobs=(), reservations=()
    )


def test_the_caller_is_whom_it_is_for_unless_somebody_is_named() -> None:
    assert reserve("nodes=gpu05").users == ("opsadmin",)
    assert reserve("nodes=gpu05 users=a,b,a").users == ("a", "b")
    only = reserve("nodes=gpu05 accounts=vision")
    assert (only.users, only.accounts) == ((), ("vision",))
    assert "name users= or accounts=" in refused(
        BadWords, "reserve night start=now+1h end=now+3h nodes=gpu05", user=None
    )


def test_named_nodes_are_taken_as_they_are() -> None:
    assert reserve("nodes=gpu07,gpu02").nodes == ("gpu07", "gpu02")
    assert "gpu77" in refused(NotFound, "reserve night start=now+1h end=now+3h nodes=gpu77")


def test_a_start_that_is_past_is_now() -> None:
    change = Reserve(name="n", start=at(-5), end=at(1), nodes=("gpu05",), users=("a",))
    (meant,) = resolve(change, snapshot())
    assert (meant.start, meant.end) == (NOW, at(1))
    with pytest.raises(BadWords, match="over before it begins"):
        resolve(msgspec.structs.replace(change, end=at(-1)), snapshot())
    late = msgspec.structs.replace(change, start=at(1) + timedelta(microseconds=5), end=at(2))
    assert resolve(late, snapshot())[0].start == at(1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reserve 'a b' start=now end=now+1h nodes=gpu05", "can't name a reservation"),
        ("reserve -x start=now end=now+1h nodes=gpu05", "can't name a reservation"),
        ("reserve vision-eval start=now end=now+1h nodes=gpu05", "already"),
        ("reserve n start=now end=now+1h nodes=gpu05 users=-mira", "can't be given to Slurm safely"),
        ("reserve n start=now end=now+1h nodes=gpu05 accounts='a b'", "can't be given to Slurm safely"),
        ("reserve n start=now end=now+1h nodes=gpu05 flags='A;B'", "no flag"),
        ("reserve n start=now end=now+1h gpus=4", "needs model= here"),
        ("reserve n start=now end=now+1h gpus=0 model=a100", "at least 1"),
    ],
)
def test_a_reservation_that_makes_no_sense(text, said) -> None:
    assert said in refused(BadWords, text)


def test_an_unknown_model_is_not_found() -> None:
    assert "a100, h100" in refused(NotFound, "reserve n start=now end=now+1h gpus=4 model=v100")


@pytest.mark.parametrize(
    ("written", "native"),
    [("15", "15"), ("16_[2-9%2]", "16_[2-9]"), ("16_[3%2]", "16_3"), ("16_4", "16_4"), ("38+1", "38"),
     ("16_[1,3,5-7:2]", "16_[1,3,5-7:2]")],
)  # fmt: skip
def test_ids_are_sent_as_slurms_commands_take_them(written, native) -> None:
    assert native_job(written) == native


def test_a_job_without_priority_and_reason_may_be_held_or_not() -> None:
    unknown = (job("50", priority=None, reason_raw=None),)
    assert words("hold 50", jobs=unknown) == ["hold 50"]
    assert words("release 50", jobs=unknown) == ["release 50"]


def test_the_ended_twin_of_an_id_is_passed_over() -> None:
    twins = (job("60", "cancelled"), job("60"))
    assert resolved("hold 60", jobs=twins) == (Hold(job="60"),)


def test_every_figure_keeps_its_value() -> None:
    (change,) = resolved("quota vision gpus=unlimited max_run=unlimited weight=3")
    assert change == SetQuota(queue="account:vision", limit=math.inf, max_run_s=math.inf, weight=3)
    assert resolved("quota qos:train max_run=1h")[0].max_run_s == HOUR
    assert RESERVATIONS_NOW
