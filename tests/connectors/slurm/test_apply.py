"""Plans carried out on a scripted Slurm: real scripts run by a real sh, with stand-ins for Slurm's programs.

What the stand-ins answer is what 22.05, 24.11 and 26.05 answered (recorded operator actions).
"""

import asyncio
import json
import math
import subprocess
from pathlib import Path

import msgspec
import pytest
from hand_made import JOBS_NOW, NODES_NOW, NOW, QUOTAS_NOW, RULES, changed, job, snapshot

from connectors.change import Drain, Receipt, Release, Resume, SetQuota, StepAnswer
from connectors.errors import Moved, NotPermitted, Refused, Unreachable
from connectors.language import only_changes, read
from connectors.slurm.apply import _NOT_PERMITTED, _complains, _said, apply
from connectors.slurm.plan import plan
from connectors.slurm.resolve import resolve
from connectors.transport.shell import ShellAnswer

DENIED = """sacctmgr: error: Your user doesn't have privilege to perform this action
 Error with request: Access/permission denied
"""
DENIED_IN_26_05 = DENIED + "sacctmgr: error: Getting response to message type: DBD_FINI\n"
NO_EFFECT_IN_22_05 = """sacctmgr: accounting_storage/slurmdbd: acct_storage_p_modify_assocs: Request didn't affect \
anything or your user doesn't have privilege to perform this action
"""
NO_EFFECT_IN_24_11 = """sacctmgr: error: Request didn't affect anything
 Error with request: Data has not changed since time specified
"""
BEYOND_IN_24_11 = """sacctmgr: error: Coordinators can not increase job limits beyond the parent ones
 Error with request: Coordinators can not increase job limits beyond the parent ones
"""
NOT_YOURS = ("", DENIED, 1)
MODIFIED = (" Modified qos...\n  train\n", "", 0)
SILENT = ("", "", 0)
RECORDED = Path(__file__).parents[2] / "recorded" / "slurm"
PROGRAMS = ("sacctmgr", "scontrol", "scancel")
STAND_IN = """#!/usr/bin/env python3
import json, os, sys
folder = os.environ["BED"]
sent = json.load(open(folder + "/sent"))
answer = json.load(open(folder + "/answers"))[len(sent)]
json.dump([*sent, [os.path.basename(sys.argv[0]), *sys.argv[1:]]], open(folder + "/sent", "w"))
sys.stdout.write(answer[0]); sys.stdout.flush()
sys.stderr.write(answer[1]); sys.stderr.flush()
if answer[2] == "breaks":  # the shell dies: above this is timeout, above that the shell
    above = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1]
    os.kill(int(above), 9)
sys.exit(answer[2])
"""


class Slurm:
    """A cluster of which each command changes the tables as a test says; `then` maps steps sent to tables."""

    where = "here"

    def __init__(self, folder, answers, tables):
        self.folder = folder
        self.tables = tables
        self.unreadable_after = math.inf
        self.lose = None
        self.readings = 0
        for program in PROGRAMS:
            (folder / program).write_text(STAND_IN)
            (folder / program).chmod(0o755)
        (folder / "answers").write_text(json.dumps(answers))
        (folder / "sent").write_text("[]")

    @property
    def sent(self):
        return json.loads((self.folder / "sent").read_text())

    async def run(self, script, *, timeout_s):
        assert timeout_s > 0
        if self.lose == "before":
            raise Unreachable("the connection broke", cluster="lab", source="ssh")
        env = {"PATH": f"{self.folder}:/usr/bin:/bin", "BED": str(self.folder), "SLURM_TIME_FORMAT": "x"}
        sh = ["/bin/sh", "-s"]
        done = await asyncio.to_thread(subprocess.run, sh, input=script.encode(), capture_output=True, env=env)
        if self.lose == "after":
            raise Unreachable("the connection broke", cluster="lab", source="ssh")
        return ShellAnswer(code=done.returncode, out=b"noise\n" + done.stdout, err=b"banner: error:\n" + done.stderr)

    async def close(self):
        pass

    async def reread(self):
        self.readings += 1
        sent = len(self.sent)
        if sent >= self.unreadable_after:
            raise Unreachable("no answer", cluster="lab", source="squeue")
        return snapshot(**self.tables[min(sent, len(self.tables) - 1)])


@pytest.fixture
def cluster(tmp_path):
    def make(answers, *tables):
        return Slurm(tmp_path, answers, tables)

    return make


def planned(text, **tables):
    ground = snapshot(**tables)
    return plan([one for change in only_changes(read([text], now=NOW)) for one in resolve(change, ground)], ground)


async def carried_out(slurm, made) -> Receipt:
    return await apply(made, shell=slurm, reread=slurm.reread, pauses_s=(0, 0))


def limit(value, queue="qos:train"):
    return {"quotas": changed(QUOTAS_NOW, "queue", queue, limit=value)}


async def test_a_change_is_sent_once_read_back_and_can_be_undone(cluster) -> None:
    slurm = cluster([MODIFIED], {}, limit(28.0))
    receipt = await carried_out(slurm, planned("quota qos:train gpus=28"))
    assert slurm.sent == [["sacctmgr", "-i", "modify", "qos", "where", "name=train", "set", "GrpTRES=gres/gpu=28"]]
    assert (receipt.outcome, receipt.said) == ("verified", None)
    assert [(found.value, found.ok) for found in receipt.found] == [(28.0, True)]
    assert receipt.undo == (SetQuota(queue="qos:train", limit=24.0),)
    (answer,) = receipt.answers
    assert (answer.code, answer.out, answer.err) == (0, MODIFIED[0], "")
    assert receipt.took_ms > 0
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(receipt), type=Receipt) == receipt


async def test_text_from_outside_never_reaches_a_shell(cluster) -> None:
    reason = "$(touch pwned); `id` 'x' \"y\" & | > f \\ * ~ é中"
    after = {"nodes": changed(NODES_NOW, "name", "gpu01", state="draining", reason=reason)}
    slurm = cluster([SILENT], {}, after)
    made = plan([Drain(nodes=("gpu01",), reason=reason)], snapshot())
    receipt = await carried_out(slurm, made)
    assert slurm.sent == [["scontrol", "update", "nodename=gpu01", "state=drain", f"reason={reason}"]]
    assert receipt.outcome == "verified"


async def test_nothing_is_sent_when_the_ground_moved(cluster) -> None:
    slurm = cluster([], limit(26.0))
    with pytest.raises(Moved) as caught:
        await carried_out(slurm, planned("quota qos:train gpus=28"))
    assert caught.value.moved == ("qos:train limit: expected 24, found 26",)
    assert caught.value.exit_code == 5
    assert slurm.sent == []


async def test_nothing_is_sent_when_the_ground_can_t_be_read(cluster) -> None:
    slurm = cluster([], {})
    slurm.unreadable_after = 0
    with pytest.raises(Unreachable):
        await carried_out(slurm, planned("quota qos:train gpus=28"))
    assert slurm.sent == []


REFUSALS = [
    ("quota qos:train gpus=28", NOT_YOURS, NotPermitted),
    ("quota vision gpus=28", (" Nothing modified\n", NO_EFFECT_IN_22_05, 1), NotPermitted),
    ("quota tomas gpus=28", ("", NO_EFFECT_IN_24_11, 1), NotPermitted),
    ("quota tomas gpus=28", ("", BEYOND_IN_24_11, 1), NotPermitted),
    ("quota tomas gpus=28", (" Modified user associations...\n  Nothing modified\n", "", 1), NotPermitted),
    ("quota qos:train gpus=28", ("", DENIED_IN_26_05, 1), NotPermitted),
    ("drain gpu01 reason=x", ("", "slurm_update error: Invalid user id\n", 1), NotPermitted),
    ("stop partition:train", ("", "slurm_update error: Invalid user id\n", 1), NotPermitted),
    ("cancel 15", ("", "scancel: error: Kill job error on job id 15: Access/permission denied\n", 210), NotPermitted),
    ("hold 15", ("", "Invalid user id for job 15\nslurm_suspend error:Invalid user id\n", 1), NotPermitted),
    ("release 37", ("", "Access/permission denied for job 37\n", 1), NotPermitted),
    ("unreserve vision-eval", ("", "delete_reservation reservationname=vision-eval: Invalid user id\n", 1),
     NotPermitted),
    ("reserve n start=now+1h end=now+2h nodes=gpu05", (
        "", "Error creating the reservation: Requested nodes are busy\n", 1), Refused),
    ("requeue 7", ("", "Requested operation is presently disabled for job 7\n", 1), Refused),
    ("resume gpu04", ("", "slurm_update error: Invalid node state transition\n", 1), Refused),
    ("quota qos:train gpus=28", ("", "sh: sacctmgr: not found\n", 127), Refused),
    ("quota qos:train gpus=28", ("", "", 1), Refused),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer", "error"), REFUSALS)
async def test_a_refusal_keeps_slurms_words_and_says_that_nothing_changed(cluster, text, answer, error) -> None:
    slurm = cluster([answer], {})
    with pytest.raises(NotPermitted) as caught:
        await carried_out(slurm, planned(text))
    assert type(caught.value) is error
    assert caught.value.exit_code == 5
    assert caught.value.unchanged is True
    assert "nothing was changed" in str(caught.value)
    for line in (answer[0] + answer[1]).splitlines():
        assert line.strip() in caught.value.said
    assert caught.value.source == slurm.sent[0][0]
    assert len(slurm.sent) == 1


def recorded(version):
    """The commands of an operator that were recorded: user, command, exit code and all that was said."""
    found = []
    for block in (RECORDED / version / "cli" / "operator-actions.txt").read_text().split("\n$ ")[1:]:
        command, _line, rest = block.partition("\n")
        said, _mark, code = rest.rpartition("rc=")
        user, argv = command[1:].split("] ", 1)
        if argv.split()[0] in PROGRAMS and " show " not in argv:
            found.append((user, argv, int(code.split()[0]), said))
    return found


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_every_recorded_answer_is_judged_rightly(version) -> None:
    answers = recorded(version)
    assert len(answers) > 80
    for user, argv, code, said in answers:
        answer = StepAnswer(native=argv, code=code, out="", err=said)
        trap = "Invalid unit type" in said and code == 0
        assert _complains(answer) is (code != 0 or trap), argv
        if code and user != "opsadmin" and "reservationname=oper" not in argv.lower():
            assert _NOT_PERMITTED.search(_said(answer)), argv
        if code and user == "opsadmin" and "nosuch" not in argv:
            assert not _NOT_PERMITTED.search(_said(answer)), argv
    assert {code for user, _argv, code, _said_ in answers if user == "mira"} == {0, 1, 210}


async def test_a_refusal_that_can_t_be_read_back_says_so(cluster) -> None:
    slurm = cluster([NOT_YOURS], {})
    slurm.unreadable_after = 1
    with pytest.raises(NotPermitted) as caught:
        await carried_out(slurm, planned("quota qos:train gpus=28"))
    assert caught.value.unchanged is None
    assert "could not be read back" in str(caught.value)
    folded = cluster([("", "Access/permission denied\n", 1)], {})
    with pytest.raises(NotPermitted) as caught:
        await carried_out(folded, planned("hold 16_4"))
    assert caught.value.unchanged is None


async def test_a_figure_that_was_so_already_does_not_turn_a_refusal_into_success(cluster) -> None:
    slurm = cluster([NOT_YOURS], {})
    with pytest.raises(NotPermitted):
        await carried_out(slurm, planned("quota qos:train gpus=24"))
    fine = cluster([MODIFIED], {})
    assert (await carried_out(fine, planned("quota qos:train gpus=24"))).outcome == "verified"


async def test_an_error_on_stderr_with_exit_code_0_is_no_success(cluster) -> None:
    """Trap 2: a figure that Slurm can't read sets the limit to 0, says Modified, and ends with 0."""
    said = "sacctmgr: error: Invalid unit type 'a'. Possible options are 'KMGTP'\n"
    slurm = cluster([(MODIFIED[0], said, 0), MODIFIED], {}, limit(0.0))
    receipt = await carried_out(slurm, planned("quota qos:train gpus=28; quota vision gpus=8"))
    assert receipt.outcome == "differs"
    assert [(found.value, found.ok) for found in receipt.found] == [(0.0, False)]
    assert "Invalid unit type" in receipt.said
    assert receipt.undo == (SetQuota(queue="qos:train", limit=24.0),)
    assert len(slurm.sent) == 1  # the plan stops there


async def test_modified_without_effect_is_seen(cluster) -> None:
    """Trap 3: `Modified qos...` comes also when nothing changed."""
    receipt = await carried_out(cluster([MODIFIED], {}, {}), planned("quota qos:train gpus=28"))
    assert receipt.outcome == "differs"
    assert [(found.value, found.ok) for found in receipt.found] == [(24.0, False)]


async def test_the_harmless_error_of_26_05_is_no_failure(cluster) -> None:
    said = "sacctmgr: error: Getting response to message type: DBD_FINI\n"
    receipt = await carried_out(cluster([(MODIFIED[0], said, 0)], {}, limit(28.0)), planned("quota qos:train gpus=28"))
    assert (receipt.outcome, receipt.said) == ("verified", None)


async def test_a_complaint_about_what_came_about_nevertheless_is_kept(cluster) -> None:
    said = "sacctmgr: error: slurm_persist_conn_open: Something happened\n"
    slurm = cluster([(MODIFIED[0], said, 1), MODIFIED], {}, limit(28.0), limit(30.0))
    receipt = await carried_out(slurm, planned("quota qos:train gpus=28; quota qos:train gpus=30"))
    assert receipt.outcome == "verified"
    assert "Something happened" in receipt.said
    assert len(slurm.sent) == 2


async def test_what_takes_a_moment_is_waited_for(cluster) -> None:
    slurm = cluster([MODIFIED], {}, {})
    readings = slurm.reread

    async def slowly():
        found = await readings()
        return snapshot(**limit(28.0)) if slurm.readings >= 4 else found

    receipt = await apply(planned("quota qos:train gpus=28"), shell=slurm, reread=slowly, pauses_s=(0, 0, 0, 0, 0))
    assert receipt.outcome == "verified"
    assert slurm.readings == 4


async def test_a_later_refusal_leaves_a_receipt_with_the_way_back(cluster) -> None:
    held = {"jobs": changed(JOBS_NOW, "key", "15", priority=0.0)}
    slurm = cluster([SILENT, NOT_YOURS, MODIFIED], {}, held, held)
    receipt = await carried_out(slurm, planned("hold 15; quota qos:train gpus=28; quota vision gpus=8"))
    assert receipt.outcome == "partial"
    assert receipt.undo == (Release(job="15"),)
    assert [found.expected.column for found in receipt.found] == ["priority", "state"]
    assert "doesn't have privilege" in receipt.said
    assert [answer.code for answer in receipt.answers] == [0, 1]
    assert len(slurm.sent) == 2


async def test_what_has_no_way_back_has_none_in_part_either(cluster) -> None:
    gone = {"jobs": changed(JOBS_NOW, "key", "15", state="cancelled")}
    receipt = await carried_out(
        cluster([SILENT, NOT_YOURS], {}, gone, gone), planned("cancel 15; quota qos:train gpus=28")
    )
    assert (receipt.outcome, receipt.undo) == ("partial", None)


async def test_a_list_of_nodes_that_is_resumed_in_part(cluster) -> None:
    """22.05 resumes the other nodes and ends with 1 when one of them can't be."""
    before = changed(changed(NODES_NOW, "name", "gpu01", state="drained", reason="fan"), "name", "gpu02",
                     state="draining", reason="fan")  # fmt: skip
    after = changed(changed(before, "name", "gpu04", state="idle", reason=None), "name", "gpu02", state="mixed",
                    reason=None)  # fmt: skip
    slurm = cluster([("", "slurm_update error: Invalid node state specified\n", 1)], {"nodes": before},
                    {"nodes": after})  # fmt: skip
    receipt = await carried_out(slurm, planned("resume gpu01,gpu02,gpu04", nodes=before))
    assert receipt.outcome == "partial"
    assert [found.ok for found in receipt.found] == [False, True, True]
    assert receipt.undo == (
        Drain(nodes=("gpu02",), reason="fan"), Drain(nodes=("gpu04",), reason="ECC errors, ticket 4711"),
    )  # fmt: skip


async def test_states_that_move_by_themselves_are_not_taken_for_ours(cluster) -> None:
    started = {"jobs": changed(JOBS_NOW, "key", "15", state="running", priority=1001.0)}
    for text in ("cancel 15", "hold 15"):
        with pytest.raises(NotPermitted) as caught:
            await carried_out(cluster([("", "Access/permission denied\n", 1)], {}, started), planned(text))
        assert caught.value.unchanged is True


async def test_a_row_that_comes_with_use_is_not_taken_for_ours(cluster) -> None:
    used = {"quotas": (*QUOTAS_NOW, {"queue": "qos:normal", "resource": "gpu", "limit": math.inf, "used": 8.0})}
    for before, after in (({}, used), (used, {})):
        with pytest.raises(NotPermitted) as caught:
            await carried_out(cluster([NOT_YOURS], before, after), planned("quota qos:normal gpus=8", **before))
        assert caught.value.unchanged is True


async def test_an_unknown_user_of_a_reservation_is_hinted_at(cluster) -> None:
    said = "Error creating the reservation: Invalid user id\n"
    with pytest.raises(NotPermitted, match="or one of the users does not exist"):
        await carried_out(cluster([("", said, 1)], {}), planned("reserve n start=now+1h end=now+2h nodes=gpu05"))


async def test_a_job_that_ended_by_itself_is_as_good_as_cancelled(cluster) -> None:
    said = ("", "scancel: error: Kill job error on job id 15: Job/step already completing or completed\n", 1)
    for rows in ((job("15", "succeeded"),), ()):
        receipt = await carried_out(cluster([said], {}, {"jobs": rows}), planned("cancel 15"))
        assert (receipt.outcome, receipt.undo) == ("verified", None)
    assert (await carried_out(cluster([SILENT], {}, {"jobs": ()}), planned("cancel 15"))).outcome == "verified"


async def test_what_can_t_be_read_back_is_unread(cluster) -> None:
    slurm = cluster([MODIFIED], {})
    slurm.unreadable_after = 1
    receipt = await carried_out(slurm, planned("quota qos:train gpus=28"))
    assert (receipt.outcome, receipt.found) == ("unread", ())
    assert receipt.undo == (SetQuota(queue="qos:train", limit=24.0),)
    folded = await carried_out(cluster([SILENT], {}), planned("hold 16_4"))
    assert (folded.outcome, folded.undo) == ("unread", (Release(job="16_4"),))


@pytest.mark.parametrize("lose", ["before", "after"])
async def test_a_lost_connection_is_never_a_silent_success(cluster, lose) -> None:
    slurm = cluster([MODIFIED], {})
    slurm.lose = lose
    with pytest.raises(Unreachable, match="reading back shows no change") as caught:
        await carried_out(slurm, planned("quota qos:train gpus=28"))
    assert caught.value.exit_code == 4


async def test_a_lost_connection_that_stays_lost_is_unread(cluster) -> None:
    slurm = cluster([MODIFIED], {})
    slurm.lose, slurm.unreadable_after = "after", 1
    receipt = await carried_out(slurm, planned("quota qos:train gpus=28"))
    assert receipt.outcome == "unread"
    assert "the connection broke" in receipt.said
    assert receipt.answers[0].code == -1


async def test_a_lost_connection_whose_change_is_seen_is_carried_out(cluster) -> None:
    slurm = cluster([MODIFIED], {}, limit(28.0))
    slurm.lose = "after"
    receipt = await carried_out(slurm, planned("quota qos:train gpus=28"))
    assert receipt.outcome == "verified"
    assert receipt.undo == (SetQuota(queue="qos:train", limit=24.0),)


async def test_a_lost_hold_of_a_folded_task_may_have_been_carried_out(cluster) -> None:
    slurm = cluster([SILENT], {})
    slurm.lose = "after"
    receipt = await carried_out(slurm, planned("hold 16_4"))
    assert (receipt.outcome, receipt.undo) == ("unread", (Release(job="16_4"),))


async def test_a_connection_lost_at_a_later_step_leaves_a_partial_receipt(cluster) -> None:
    held = {"jobs": changed(JOBS_NOW, "key", "15", priority=0.0)}
    slurm = cluster([SILENT, (MODIFIED[0], "", "breaks")], {}, held, held)
    receipt = await carried_out(slurm, planned("hold 15; quota qos:train gpus=28"))
    assert (receipt.outcome, receipt.undo) == ("partial", (Release(job="15"),))
    assert "it broke off" in receipt.said


async def test_an_answer_that_breaks_off_is_not_taken_for_one(cluster) -> None:
    slurm = cluster([(MODIFIED[0], "", "breaks")], {}, {})
    with pytest.raises(Unreachable, match="it broke off"):
        await carried_out(slurm, planned("quota qos:train gpus=28"))


async def test_a_command_that_was_ended_may_have_been_carried_out(cluster) -> None:
    for code in (124, 137):
        with pytest.raises(Unreachable, match="the command was ended"):
            await carried_out(cluster([(MODIFIED[0], "", code)], {}, {}), planned("quota qos:train gpus=28"))


async def test_a_limit_that_is_lifted_may_leave_no_row(cluster) -> None:
    without = tuple(row for row in QUOTAS_NOW if row["queue"] != "qos:train")
    free = msgspec.structs.replace(RULES.qos[0], grp_tres={"cpu": 512})
    rules = msgspec.structs.replace(RULES, qos=(free, *RULES.qos[1:]))
    slurm = cluster([MODIFIED], {}, {"quotas": without, "rules": rules})
    receipt = await carried_out(slurm, planned("quota qos:train gpus=unlimited"))
    assert receipt.outcome == "verified"
    back = cluster([MODIFIED], {"quotas": without, "rules": rules}, {})
    again = plan(receipt.undo, snapshot(quotas=without, rules=rules))
    assert (await carried_out(back, again)).outcome == "verified"


async def test_the_undo_of_an_undo_is_the_change(cluster) -> None:
    drained = {"nodes": changed(NODES_NOW, "name", "gpu01", state="draining", reason="fan")}
    first = await carried_out(cluster([SILENT], {}, drained), planned("drain gpu01 reason=fan"))
    assert first.undo == (Resume(nodes=("gpu01",)),)
    back = plan(first.undo, snapshot(**drained))
    second = await carried_out(cluster([SILENT], drained, {}), back)
    assert (second.outcome, second.undo) == ("verified", (Drain(nodes=("gpu01",), reason="fan"),))
