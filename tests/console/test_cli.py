"""The command line's edges: one line on standard error, nothing on standard output, the code of its kind."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.errors import Unreachable
from console import cli
from console.config import ClusterConfig, Config
from console.engine import Engine

DEMO = ("-c", "demo:lab48")


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("GPUDECK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("GPUDECK_CONFIG", str(tmp_path / "none.toml"))

    def call(*words):
        code = cli.main(words)
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("get", "jobs", *DEMO, "--parquet", "/nowhere/x"), 2, "can't be written"),
        (("get", "jobs", *DEMO, "--json", "--csv"), 2, "--json and --csv"),
        (("explain", *DEMO, "-c", "demo:mid128", "no-such-job"), 3, "on demo:lab48 or demo:mid128"),
        (("whatif", *DEMO, "hold " + "x" * 10_000), 3, "no such job"),
        (("do", *DEMO, "hold 1 ; x", "--yes"), 2, ""),
    ],
)
def test_a_failure_is_one_line(run, words, code, says):
    got, out, err = run(*words)
    assert (got, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1
    assert len(err) < 2100


def test_a_failing_cluster_is_said_once(run, monkeypatch):
    fine = Engine.read

    async def read(self, name, *, everything=False):
        if name == "demo:quad":
            raise Unreachable("down", cluster=name, source="ssh")
        return await fine(self, name, everything=everything)

    monkeypatch.setattr(Engine, "read", read)
    both = (*DEMO, "-c", "demo:quad")
    _code, out, _err = run("get", "jobs", *DEMO, "--where", "state:pending", "--columns", "id", "--json")
    job = out.split('"id":"')[1].split('"')[0]
    code, out, err = run("explain", job, *both)
    assert code == 0
    assert err == "gpudeck: demo:quad: ssh: down\n"
    code, out, err = run("do", "--dry-run", "hold no-such-job", *both)
    assert (code, out, err) == (4, "", "gpudeck: demo:quad: ssh: down\n")
    code, _out, err = run("clusters", "-c", "demo:quad")
    assert (code, err) == (4, "gpudeck: demo:quad: ssh: down\n")


def test_a_fault_is_one_line_too(run, monkeypatch):
    async def read(self, name, *, everything=False):
        raise RuntimeError("first\nsecond\nthird")

    monkeypatch.setattr(Engine, "read", read)
    code, out, err = run("get", "jobs", *DEMO)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "first" in err
    assert "second" not in err


def test_rows_by_line_need_no_utf8_terminal(tmp_path):
    words = ("-m", "console", "get", "jobs", "-c", "demo:quad", "--json-lines")
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "GPUDECK_STATE": str(tmp_path)}
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stderr == b""


async def test_now_is_the_clusters_own():
    engine = Engine(Config(), [ClusterConfig(name="lab48", system="demo", settings={"scenario": "lab48"})])
    ours = datetime.now(UTC)
    assert abs(engine.now("lab48") - ours) < timedelta(seconds=30)
    snapshot = await engine.read("lab48")
    ahead = timedelta(days=3)
    import dataclasses

    from msgspec.structs import replace as moved_on

    later = dataclasses.replace(snapshot, meta=moved_on(snapshot.meta, taken_at=ours + ahead))
    engine.member("lab48").accept(later)
    assert abs(engine.now("lab48") - ours - ahead) < timedelta(seconds=30)
    assert engine.now("lab48").tzinfo is not None
    await engine.close()


def test_a_system_that_is_not_installed_is_a_mistake_of_the_config(run, tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('# mine\n[clusters.a]\nhost = "x"\nsystem = "slrum"\n')
    code, out, err = run("clusters", "--config", str(path))
    assert (code, out) == (2, "")
    assert f"{path}, line 4: [clusters.a] no such system: 'slrum'" in err


def test_single_tasks_of_an_array_that_waits_are_jobs(run):
    folder = Path(__file__).resolve().parents[1] / "recorded" / "slurm" / "22.05-live"
    code, out, _err = run("do", "--dry-run", "--captured", str(folder), "cancel 16_3", "cancel 16_4")
    assert code == 0
    assert "scancel 16_3\n" in out
    assert "scancel 16_4\n" in out
    code, out, err = run("do", "--yes", "--captured", str(folder), "cancel 16_3")
    assert (code, out) == (5, "")
    assert "a capture can't be changed" in err


def test_closed_streams_are_no_fault(tmp_path):
    env = {**os.environ, "GPUDECK_STATE": str(tmp_path)}
    words = f"exec {sys.executable} -m console get nodes -c demo:quad >&-"
    done = subprocess.run(["/bin/sh", "-c", words], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_doctor_names_a_failing_cluster_once(run, monkeypatch):
    async def read(self, name, *, everything=False):
        raise Unreachable("down", cluster=name, source="ssh")

    monkeypatch.setattr(Engine, "read", read)
    code, out, err = run("doctor", "-c", "demo:quad")
    assert (code, err) == (7, "gpudeck: 1 check failed\n")
    assert "! fault demo:quad: ssh: down\n" in out
