"""The command line against a real Slurm: what a person sees agrees with Slurm's own tools, and changes are real."""

import json
import re

import pytest
from deck import Deck

HOSTILE_EXPLAINED = 10
QUOTAS = "format=name,grptres"


@pytest.fixture(scope="module")
def scenario(slurm):
    """Submit the scenario once; tests that change it come last and take `fresh`."""
    return slurm.scenario()


@pytest.fixture
def fresh(slurm):
    return slurm.scenario()


def native_jobs(slurm):
    """Return id to what squeue says; folded arrays are one row, under the id that scontrol takes (without `%2`)."""
    form = "\x1e\x1e%i\x1f%T\x1f%u\x1f%a\x1f%P\x1f%q\x1f%D\x1f%j"
    answer = slurm.run("root", ["squeue", "-h", "-t", "all", "-o", form], check=True)
    rows = [row.removesuffix("\n").split("\x1f") for row in answer.stdout.split("\x1e\x1e")[1:]]
    return {re.sub(r"%\d+", "", row[0]): row[1:] for row in rows}


def test_jobs_agree_with_squeue_job_for_job(slurm, deck, scenario):
    for _ in range(8):  # slurmctld forgets ended jobs at times of its own: hold the two against each other at rest
        before = native_jobs(slurm)
        ours = {row["id"]: row for row in deck.rows("jobs")}
        native = native_jobs(slurm)
        if native == before:
            break
    assert set(ours) == set(native)
    for job, (state, user, account, partition, qos, nodes, name) in native.items():
        row = ours[job]
        assert (row["state_raw"], row["user"], row["team"], row["name"]) == (state, user, account, name), job
        assert row["queue"] == f"partition:{partition}"
        assert f"qos:{qos}" in row["bound_by"]
        assert row["nodes"] == int(nodes), job
        assert row["state"] == {"NODE_FAIL": "node_failed", "COMPLETED": "succeeded"}.get(state, state.lower())


def test_ended_jobs_agree_with_sacct(slurm, deck, scenario):
    answer = slurm.run("root", ["sacct", "-a", "-X", "-n", "-P", "-S", "now-1hour", "-o", "JobID,State"], check=True)
    native = {line.split("|")[0]: line.split("|")[1].split(" ")[0] for line in answer.stdout.splitlines()}
    ours = {row["id"]: row["state_raw"].split(" ")[0] for row in deck.rows("jobs", "--last", "1h")}
    ended = {
        job: state for job, state in native.items() if state not in {"PENDING", "RUNNING", "SUSPENDED", "REQUEUED"}
    }
    assert ended
    for job, state in ended.items():
        assert ours.get(job) == state, job


EXPECTED = {
    "vlm-eval": ("wait", "QUOTA_FULL", ["vision", "17", "20", "8"]),
    "lm-dpo": ("wait", "QUOTA_FULL", ["inference", "8"]),
    "lm-ablate": ("wait", "QUOTA_FULL", ["train", "24"]),
    "over-user-max": ("wait", "QUOTA_FULL", ["mira", "1", "2"]),
    "lm-long": ("wait", ("ALL_BUSY", "SHAPE_NO_FIT"), ["8", "4"]),
    "wide-1": ("wait", ("BEHIND_IN_LINE", "ALL_BUSY", "SHAPE_NO_FIT"), []),
    "on-drained": ("act", "NODE_OUT", ["gpu04"]),
    "too-long": ("never", "NEVER_FITS", ["9h", "4h"]),
    "key-normal": (("act", "never"), "BAD_REQUEST", ["normal", "key"]),
    "in-resv": ("wait", "WINDOW", ["vision-eval"]),
    "after-eval": ("wait", "GATED", []),
    "never": ("never", "GATED", []),
    "tonight": ("wait", "GATED", []),
    "held-by-user": ("act", "HELD", []),
    "held-by-admin": ("act", "HELD", ["admin"]),
    "requeue-held": ("act", "HELD", []),
    "sweep": (("act", "wait"), "GATED", ["2"]),
    "wide-2": ("wait", ("BEHIND_IN_LINE", "ALL_BUSY", "SHAPE_NO_FIT"), []),
    "low-requeue": ("wait", ("ALL_BUSY", "SHAPE_NO_FIT"), ["8", "gpu01"]),
    "requeued": ("wait", "GATED", ["1 restart"]),
    "het": ("wait", "GATED", []),
    "too-wide": ("never", "NEVER_FITS", ["2 nodes", "1 node"]),  # refused at once by 24.11
}


@pytest.fixture(scope="module")
def explained(slurm, scenario, tmp_path_factory):
    deck, jobs = Deck(slurm, tmp_path_factory.mktemp("deck")), scenario
    ids = {row["name"]: row["id"] for row in deck.rows("jobs", "--where", "state:pending")}
    return {name: deck.json("explain", ids[name]) for name in EXPECTED if name in jobs}


def test_no_job_of_the_scenario_waits_unexplained(explained, scenario):
    waiting = {name for name, job in scenario.items() if job.state == "PENDING"}
    assert waiting == set(explained)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_reason_is_explained(explained, scenario, name):
    if name not in scenario:
        assert name == "too-wide"
        pytest.skip("this Slurm refuses such a job at once")
    verdict, cause, figures = EXPECTED[name]
    answer = explained[name]
    first = answer["causes"][0]
    assert answer["verdict"] in ([verdict] if isinstance(verdict, str) else verdict), answer
    assert first["class"] in ([cause] if isinstance(cause, str) else cause), answer
    words = first["says"] + " ".join(item["text"] for item in first["evidence"])
    for figure in figures:
        assert figure in words, words
    assert first["stated_by"] in {"system", "derived"}
    assert first["evidence"]


def test_whatif_quota_and_reserve_answer(deck, scenario):
    quota = deck.json("whatif", "quota qos:train gpus=28")
    assert quota["verdict"] in {"better", "trade"}
    assert any(
        shift["name"] == "lm-ablate" and shift["word"] in {"sooner", "starts"} for shift in quota["difference"]["jobs"]
    )
    reserve = deck.json("whatif", "reserve maint nodes=gpu01 start=now+1m end=now+3h")
    assert reserve["verdict"] in {"worse", "trade", "same"}
    assert reserve["changed"]["jobs"]
    submit = deck.json("whatif", "submit gpus=8 hours=1 queue=train")
    assert any(shift["word"] == "new" for shift in submit["difference"]["jobs"])


@pytest.mark.parametrize(
    "change",
    [
        "quota qos:train gpus=30",
        "quota account:vision gpus=30",
        "drain gpu01 reason=test",
        "reserve r1 nodes=gpu04 start=now+9h end=now+10h",
    ],
)
def test_an_ordinary_user_is_refused_in_slurms_own_words(slurm, deck, scenario, change):
    def state():
        words = (["scontrol", "-o", "show", "reservation"], ["sacctmgr", "-nP", "show", "qos", QUOTAS],
                 ["sacctmgr", "-nP", "show", "assoc", "format=account,user,grptres"], ["sinfo", "-h", "-N", "-o", "%N %T"])  # fmt: skip
        return [slurm.run("root", list(argv), check=True).stdout for argv in words]

    before = state()
    answer = deck("do", change, "--yes", user="mira")
    assert answer.returncode == 5, answer.stderr
    assert any(said in answer.stderr for said in ("Invalid user id", "permission denied", "privilege")), answer.stderr
    assert "nothing was changed" in answer.stderr
    assert state() == before
    assert deck("audit", "--verify", user="mira").returncode == 0


def test_somebody_elses_job_is_refused(slurm, deck, scenario):
    victim = scenario["lm-ablate"].id
    for change in (f"cancel {victim}", f"hold {victim}", f"priority {victim} value=99999"):
        answer = deck("do", change, "--yes", user="mira")
        assert answer.returncode == 5, (change, answer.stderr)
    assert slurm.states()[victim][0] == "PENDING"


def test_a_capture_answers_like_the_cluster(slurm, deck, scenario):
    folder = deck.folder / "capture"
    assert deck("capture", str(folder)).returncode == 0
    live = {row["id"]: row["name"] for row in deck.rows("jobs")}
    assert {row["id"]: row["name"] for row in deck.rows("jobs", "--captured", str(folder))} == live
    asked = deck("do", "quota qos:train gpus=30", "--yes", "--captured", str(folder))
    assert asked.returncode == 5
    job = str(scenario["vlm-eval"].id)
    assert deck.json("explain", job, "--captured", str(folder))["causes"][0]["class"] == "QUOTA_FULL"
    redacted = deck.folder / "redacted"
    assert deck("capture", str(redacted), "--redact").returncode == 0
    text = b"".join(path.read_bytes() for path in redacted.rglob("*") if path.is_file())
    for word in (b"mira", b"vlm-eval", b"language", b"kenji"):
        assert word not in text, word
    assert len(deck.rows("jobs", "--captured", str(redacted))) == len(live)


def test_words_objects_and_ambiguity(deck, scenario):
    assert deck("explain", "999999").returncode == 3
    assert deck("do", "quota qos:nix gpus=4", "--yes").returncode == 3
    assert deck("do", "quota train gpus=4", "--yes").returncode == 2
    assert deck("do", "quota qos:train gpus=abc", "--yes").returncode == 2
    assert deck("do", "quota gpus=4", "--yes").returncode == 2
    assert deck("whatif", "nonsense").returncode == 2


def test_the_word_must_be_typed(slurm, deck, fresh):
    change = "quota qos:low gpus=5"
    assert deck("do", change, stdin="something\n").returncode == 2
    assert deck("do", change, stdin="").returncode == 2
    assert deck("do", change, "--dry-run").returncode == 0
    answer = slurm.run("root", ["sacctmgr", "-nP", "show", "qos", "low", QUOTAS], check=True)
    assert answer.stdout.strip() == "low|"
    assert deck("do", change, stdin="qos:low\n").returncode == 0


def test_a_quota_is_changed_seen_undone_and_audited(slurm, deck, fresh):
    def limit():
        return slurm.run("root", ["sacctmgr", "-nP", "show", "qos", "train", QUOTAS], check=True).stdout.strip()

    assert limit() == "train|gres/gpu=24"
    done = deck.spawned("do", "quota qos:train gpus=28", "--yes")
    assert done.returncode == 0, done.stderr
    assert limit() == "train|gres/gpu=28"
    slurm.wait_for("start of lm-ablate", lambda: slurm.states()[fresh["lm-ablate"].id][0] == "RUNNING", 60)
    (entry,) = deck.json("audit")
    assert entry["outcome"] == "verified"
    assert deck("undo", entry["receipt"], "--yes").returncode == 0
    assert limit() == "train|gres/gpu=24"
    assert deck("undo", entry["receipt"], "--yes").returncode == 2
    assert deck("audit", "--verify").returncode == 0
    log = deck.folder / "state/audit/audit.jsonl"
    log.write_text(log.read_text().replace("limit 24", "limit 25").replace('"value":28', '"value":29', 1))
    assert deck("audit", "--verify").returncode == 7
    assert deck.spawned("audit", "--verify").returncode == 7


def test_hostile_names_are_listed_filtered_explained_and_cancelled(slurm, deck):
    slurm.reset()
    names = slurm.hostile()
    assert len(names) == HOSTILE_EXPLAINED
    rows = {row["id"]: row for row in deck.rows("jobs", "--where", "user:mira")}
    for job, name in names.items():
        assert rows[str(job)]["name"] == name
        part = re.split(r"[\x1b\n]", name)[0]
        where = f"name:{json.dumps(part, ensure_ascii=False)} id:{job}"
        assert [row["name"] for row in deck.rows("jobs", "--where", where)] == [name]
        plain = deck("explain", str(job)).stdout
        assert "\x1b" not in plain
        assert plain.splitlines()[0].startswith("opsadmin")
    plain = deck("get", "jobs").stdout
    assert "\x1b" not in plain
    assert {line.split()[0] for line in plain.splitlines()} >= {str(job) for job in names}, "one line a job"
    one, *rest = names
    for change in (f"cancel {one}", "; ".join(f"cancel {job}" for job in rest)):
        answer = deck.spawned("do", change, "--yes")
        assert answer.returncode == 0, answer.stderr
    assert all(state not in {"PENDING", "RUNNING"} for job, (state, _reason) in slurm.states().items() if job in names)


def test_doctor_and_clusters(deck, slurm):
    assert deck("doctor").returncode == 0
    (row,) = deck.json("clusters")
    assert row["reachable"]
    assert row["user"] == "opsadmin"
    assert "quota" in row["could_write"]
    with slurm.broken("sshd"):
        answer = deck("doctor")
        assert answer.returncode == 7
        assert deck("get", "jobs").returncode == 4
    with slurm.broken("slurmctld"):
        answer = deck("get", "jobs", "--json")
        assert answer.returncode == 4
        assert answer.stdout == ""
        assert "Unable to contact slurm controller" in answer.stderr
