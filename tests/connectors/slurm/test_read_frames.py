"""The script of one refresh and its answer: noise, truncation, the user's environment, hostile cluster names."""

from __future__ import annotations

import os
import subprocess

import pytest

from connectors.slurm import framing

NONCE = "00112233445566778899aabb"
ASKED = {"one": ("printf", "a\\nb\\n"), "two": ("sh", "-c", "echo out; echo err >&2; exit 3")}


def run(script: str, **env: str) -> tuple[bytes, bytes]:
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=script.encode(),
        capture_output=True,
        timeout=30,
        env={**os.environ, **env},
        check=False,
    )
    return done.stdout, done.stderr


def answers(
    out: bytes, err: bytes = b"", asked: dict[str, tuple[str, ...]] | None = None
) -> dict[str, tuple[int, bytes]]:
    found = framing.frames(out, err, NONCE, asked or ASKED)
    return {name: (answer.code, answer.out) for name, answer in found.items()}


def test_each_command_has_its_own_frame() -> None:
    out, err = run(framing.script(ASKED, NONCE, timeout_s=5))
    found = framing.frames(out, err, NONCE, ASKED)
    assert {name: (one.code, one.out, one.err) for name, one in found.items()} == {
        "one": (0, b"a\nb\n", b""),
        "two": (3, b"out\n", b"err\n"),
    }


@pytest.mark.parametrize(
    "noise", [b"Welcome!\n", b"\x1b[2Jmotd\r\n", b"no line end", b"\n" + NONCE.encode() + b" end one 0\n"]
)
def test_noise_around_the_frames_is_ignored(noise: bytes) -> None:
    out, err = run(framing.script(ASKED, NONCE, timeout_s=5))
    end = f"\n{NONCE} end one 0\n".encode()
    noisy = noise + out.replace(end, end + noise) + noise
    found = framing.frames(noisy, noise + err + noise, NONCE, ASKED)
    assert found["one"].out == b"a\nb\n"
    assert (found["two"].out, found["two"].err, found["two"].code) == (b"out\n", b"err\n", 3)


def test_an_answer_without_its_end_has_broken_off() -> None:
    out, err = run(framing.script(ASKED, NONCE, timeout_s=5))
    for cut in range(len(out)):
        found = framing.frames(out[:cut], err, NONCE, ASKED)
        for name, answer in found.items():
            whole = f"\n{NONCE} end {name} ".encode()
            if whole not in out[:cut] or not out[:cut].partition(whole)[2].partition(b"\n")[1]:
                assert answer.code == framing.BROKEN_OFF
    assert answers(out[: out.index(b" end one")])["one"] == (framing.BROKEN_OFF, b"a\nb\n\n" + NONCE.encode())


def test_a_frame_that_broke_off_does_not_swallow_the_next() -> None:
    out, err = run(framing.script(ASKED, NONCE, timeout_s=5))
    out = out.replace(f"\n{NONCE} end one 0\n".encode(), b"")
    found = framing.frames(out, err, NONCE, ASKED)
    assert found["one"].code == framing.BROKEN_OFF
    assert (found["two"].code, found["two"].out) == (3, b"out\n")


def test_frames_that_nobody_asked_for_are_ignored() -> None:
    forged = f"\n{NONCE} begin other\nx\n{NONCE} end other 0\n".encode()
    assert answers(forged) == {}


def test_output_without_a_line_end_is_exact() -> None:
    asked = {"bare": ("printf", "no end"), "none": ("true",), "lines": ("printf", "\\n\\n")}
    out, err = run(framing.script(asked, NONCE, timeout_s=5))
    assert answers(out, err, asked) == {"bare": (0, b"no end"), "none": (0, b""), "lines": (0, b"\n\n")}


def test_the_users_environment_does_not_reach_slurm() -> None:
    asked = {"env": ("env",)}
    out, err = run(
        framing.script(asked, NONCE, timeout_s=5),
        SQUEUE_FORMAT="%i", SQUEUE_SORT="x", SINFO_FORMAT="%N", SACCT_FORMAT="jobid", SLURM_TIME_FORMAT="relative",
        SLURM_CLUSTERS="other", SLURM_BITSTR_LEN="8", SLURM_CONF="/etc/here.conf", SLURM_JWT="token", TZ="Asia/Tokyo",
        LC_ALL="tr_TR", SQUEUE_STATES="all\nSLURM_X=1", SCONTROL_ALL="1",
    )  # fmt: skip
    lines = set(answers(out, err, asked)["env"][1].decode().splitlines())
    names = {line.partition("=")[0] for line in lines}
    assert {"SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0", "LC_ALL=C.UTF-8"} <= lines
    assert {"SLURM_CONF=/etc/here.conf", "SLURM_JWT=token"} <= lines
    gone = {"SQUEUE_FORMAT", "SQUEUE_SORT", "SQUEUE_STATES", "SINFO_FORMAT", "SACCT_FORMAT", "SLURM_CLUSTERS", "TZ"}
    assert not names & (gone | {"SCONTROL_ALL"})


def test_a_command_that_hangs_is_ended() -> None:
    asked = {"hangs": ("sleep", "20"), "after": ("echo", "fine")}
    out, err = run(framing.script(asked, NONCE, timeout_s=1))
    assert answers(out, err, asked) == {"hangs": (framing.TIMED_OUT, b""), "after": (0, b"fine\n")}


def test_commands_do_not_eat_the_script() -> None:
    asked = {"cat": ("cat",), "after": ("echo", "fine")}
    out, err = run(framing.script(asked, NONCE, timeout_s=5))
    assert answers(out, err, asked) == {"cat": (0, b""), "after": (0, b"fine\n")}


def test_a_program_that_is_missing_is_said() -> None:
    asked = {"none": ("no-such-program-at-all",)}
    out, err = run(framing.script(asked, NONCE, timeout_s=5))
    assert answers(out, err, asked)["none"][0] == framing.NOT_FOUND


@pytest.mark.parametrize("hostile", ["$(touch /tmp/pwned)", "`id`", "a b;c", "'", '"', "\n echo x", "-x"])
def test_settings_and_arguments_reach_no_shell(hostile: str) -> None:
    asked = {"one": ("printf", "%s", hostile), "env": ("sh", "-c", 'printf %s "$SLURM_CLUSTERS"')}
    script = framing.script(asked, NONCE, timeout_s=5, slurm_path="/nowhere " + hostile, cluster_name=hostile)
    out, err = run(script)
    assert answers(out, err, asked) == {"one": (0, hostile.encode()), "env": (0, hostile.encode())}


def test_the_folder_of_slurms_programs_comes_first() -> None:
    asked = {"path": ("sh", "-c", 'printf %s "$PATH"')}
    out, err = run(framing.script(asked, NONCE, timeout_s=5, slurm_path="/sw/slurm/bin"))
    assert answers(out, err, asked)["path"][1].startswith(b"/sw/slurm/bin:")
