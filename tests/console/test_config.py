"""The config: what it accepts, and that each mistake is one line with file, line and key."""

from pathlib import Path

import pytest

from connectors.errors import BadWords, NotFound
from connectors.secret import Secret
from console import config
from console.config import parse

PATH = Path("config.toml")
GOOD = """
language = "zh_CN"
[clusters.hpc-a]
system = "slurm"
host = "login1"   # an alias
access = "write"
history = "2d"
passphrase = { env = "PASS" }

[clusters."b"]
system = "demo"
scenario = "lab48"
"""


def test_a_good_file():
    read = parse(GOOD, PATH)
    assert [c.name for c in read.clusters] == ["hpc-a", "b"]
    first = read.cluster("hpc-a")
    assert first.access == "write"
    assert first.history_s == 2 * 86400
    assert first.settings == {"host": "login1", "passphrase": Secret(env="PASS")}
    assert read.cluster("demo:lab48").system == "demo"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("languge = 'x'", "line 1: languge is not a key"),
        ("\nascii = 'yes'", "line 2: ascii must be a bool"),
        ("[clusters.a]\nhost='x'", "line 1: [clusters.a] system is missing"),
        ("[clusters.a]\nsystem='slurm'\n\naccess='rw'", "line 4: [clusters.a] access must be"),
        ("[clusters.a]\nsystem='slurm'\npassword='geheim'", "line 3: [clusters.a] password is a secret"),
        (
            "[clusters.a]\nsystem='slurm'\ntoken={env='A', command='b'}",
            "line 3: [clusters.a] token is not a secret's place",
        ),
        ("[clusters.a]\nsystem='slurm'\nhistory='soon'", "line 3: [clusters.a] history is not a duration"),
        ("[clusters]\na = 3", "line 2: [clusters] a must be a table"),
        ("[clusters.'a b']\nsystem='slurm'", "line 1: [clusters] a b is no name for a cluster"),
        ("x = ", "line 1"),
    ],
)
def test_mistakes_name_line_and_key(text, says):
    with pytest.raises(BadWords) as failure:
        parse(text, PATH)
    assert says in str(failure.value)
    assert "config.toml" in str(failure.value)
    assert "\n" not in str(failure.value)
    assert "geheim" not in str(failure.value)


def test_a_connectors_complaint_gets_its_line():
    read = parse(GOOD, PATH)
    told = read.complain("hpc-a", BadWords("host is odd", text="host"))
    assert "line 5" in str(told)


def test_no_file_is_no_clusters(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUDECK_CONFIG", str(tmp_path / "none.toml"))
    assert config.load().clusters == ()
    with pytest.raises(BadWords, match="no cluster is configured"):
        config.load().selected([])
    with pytest.raises(BadWords, match="is not there"):
        config.load(tmp_path / "none.toml")


def test_unknown_clusters_name_near_ones():
    with pytest.raises(NotFound, match="hpc-a"):
        parse(GOOD, PATH).cluster("hpc-b")


def test_secrets(monkeypatch):
    monkeypatch.setenv("PASS", "s3cret")
    assert Secret(env="PASS").reveal() == "s3cret"
    assert Secret(command="printf 'a b'").reveal() == "a b"
    with pytest.raises(BadWords, match="exited 3"):
        Secret(command="sh -c 'exit 3'").reveal()
    with pytest.raises(BadWords, match="holds no secret"):
        Secret(env="NOT_THERE_AT_ALL").reveal()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[clusters.a]\nsystem = "slurm"\n\n[cluster.b]\nsystem = "slurm"\n', 4),
        ('[clusters.a]\nsystem = "demo"\n[clusters."a.b"]\naccess = "no"\nsystem = "demo"\n', 4),
        ('[ clusters . "a" ]  # one\nsystem = "demo"\naccess = "no"\n', 3),
    ],
)
def test_the_line_is_right(text, line):
    with pytest.raises(BadWords, match=rf"config.toml, line {line}: "):
        parse(text, PATH)
