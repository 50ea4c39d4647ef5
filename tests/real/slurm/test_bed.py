"""The bed itself: what the other tests against real Slurm stand on."""

from __future__ import annotations

import subprocess

import bed_jobs
import pytest
from bed import DAEMONS, SlurmBed, status
from bed_config import NODES, BedError
from bed_process import running_pid


def ssh(slurm: SlurmBed, user: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ssh", "-F", slurm.ssh_config, slurm.host(user), *argv],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def gpus(slurm: SlurmBed) -> dict[str, tuple[int, int]]:
    """Node to (configured, allocated) GPUs, from the TRES lines of scontrol."""
    found = {}
    for line in slurm.run("root", ["scontrol", "-o", "show", "node"], check=True).stdout.splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        counts = []
        for key in ("CfgTRES", "AllocTRES"):
            tres = dict(part.split("=") for part in words[key].split(",") if part)
            counts.append(int(tres.get("gres/gpu", "0")))
        found[words["NodeName"]] = (counts[0], counts[1])
    return found


def test_eight_nodes_are_idle_with_64_gpus(slurm: SlurmBed) -> None:
    slurm.reset()
    assert slurm.node_states() == dict.fromkeys(NODES, "idle")
    assert gpus(slurm) == dict.fromkeys(NODES, (8, 0))
    assert set(status(slurm.dir)) == set(DAEMONS)


@pytest.mark.parametrize("user", ["opsadmin", "opsoper", "vcoord", "svcinfer"])
def test_a_user_reaches_the_queue_over_ssh(slurm: SlurmBed, user: str) -> None:
    done = ssh(slurm, user, "id -un; squeue -h -o %i; sacctmgr -n -P show user $(id -un) format=User")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == user
    assert done.stdout.splitlines()[-1] == user


def test_only_the_administrator_changes_a_qos(slurm: SlurmBed) -> None:
    change = "sacctmgr -i modify qos where name=train set GrpTRES=gres/gpu=25"
    assert ssh(slurm, "opsoper", change).returncode == 1
    assert ssh(slurm, "mira", change).returncode == 1
    assert ssh(slurm, "opsadmin", change).returncode == 0
    slurm.reset()
    shown = slurm.run("root", ["sacctmgr", "-n", "-P", "show", "qos", "where", "name=train", "format=GrpTRES"])
    assert shown.stdout.strip() == "gres/gpu=24"


def test_the_scenario_has_the_reasons_it_promises(slurm: SlurmBed) -> None:
    jobs = slurm.scenario()
    now = slurm.states()
    for name, job in jobs.items():
        state, reason = now[job.id]
        assert (name, state) == (name, job.state)
        assert reason.startswith(job.reason), name
    reasons = {job.reason for job in jobs.values() if job.state == "PENDING"}
    assert len(reasons) >= 16
    used = gpus(slurm)
    assert sum(allocated for _, allocated in used.values()) == 52
    assert used["gpu01"] == (8, 4)
    assert slurm.node_states()["gpu04"] == "drained"


def test_a_raised_quota_lets_the_waiting_job_start(slurm: SlurmBed) -> None:
    waiting = slurm.scenario()["lm-ablate"].id
    raised = ["sacctmgr", "-i", "modify", "qos", "where", "name=train", "set", "GrpTRES=gres/gpu=28"]
    slurm.run("opsadmin", raised, check=True)
    slurm.wait_for("start of lm-ablate", lambda: slurm.states()[waiting][0] == "RUNNING", 60)


def test_hostile_names_arrive_unchanged(slurm: SlurmBed) -> None:
    slurm.reset()
    names = slurm.hostile()
    assert list(names.values()) == list(bed_jobs.HOSTILE_NAMES)
    for number, name in names.items():
        shown = slurm.run("root", ["squeue", "-h", "-j", str(number), "-o", "%j"], check=True).stdout
        assert shown == f"{name}\n"
    slurm.reset()


def test_a_silent_slurmctld_comes_back(slurm: SlurmBed) -> None:
    with slurm.broken("slurmctld", hard=True):
        assert slurm.run("opsadmin", ["scontrol", "ping"]).returncode == 1
        assert running_pid(slurm.bed, "slurmctld") is None
    # a crash forgets the last seconds: jobs cancelled just before it may be back, so idle nodes need a reset
    slurm.reset()
    assert slurm.node_states() == dict.fromkeys(NODES, "idle")


def test_sshd_refuses_while_it_is_stopped_and_takes_its_sessions_along(slurm: SlurmBed) -> None:
    with subprocess.Popen(["ssh", "-F", slurm.ssh_config, slurm.host("mira"), "echo on; sleep 60"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as session:  # fmt: skip
        assert session.stdout is not None
        assert session.stdout.readline() == "on\n"
        with slurm.broken("sshd"):
            assert session.wait(timeout=10) == 255
            assert ssh(slurm, "mira", "true").returncode == 255
    assert ssh(slurm, "mira", "true").returncode == 0


def test_a_wait_that_fails_says_what_and_shows_the_log(slurm: SlurmBed) -> None:
    with pytest.raises(BedError, match=r"impossible did not happen within 0 s\n--- .*slurmctld\.log\n\[\d{4}-"):
        slurm.wait_for("impossible", lambda: False, 0)
