"""What a job prints, read from its output file through the shell."""

import asyncio
import codecs
import re
import shlex
from collections.abc import AsyncIterator

from connectors.errors import NotFound, Unsupported
from connectors.model import ACTIVE_STATES
from connectors.slurm import framing
from connectors.slurm.columns import decode, said
from connectors.slurm.states import job_state
from connectors.transport.shell import Shell

_TAIL_BYTES = 64 * 1024
_CHUNK_BYTES = 1024 * 1024
_PAUSE_S = 2.0
_TIMEOUT_S = 20
_SYMBOL = re.compile(r"%[0-9]*[A-Za-z]")  # sbatch(1), "filename pattern"
_STDOUT = re.compile(r"^   StdOut=(.*)$", re.MULTILINE)


async def follow(shell: Shell, cluster: str, job: str, slurm_path: str | None) -> AsyncIterator[str]:
    """Yield the last 64 KiB of the job's standard output by line, then what is added until the job has ended.

    NotFound for a job that slurmctld does not know; Unsupported where it has no output file, or none that this user
    can read on the host we speak to.
    """
    path, active = await _output_of(shell, cluster, job, slurm_path)
    text = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    offset: int | None = None
    rest = ""
    while True:
        size, new = await _read(shell, cluster, path, offset)
        if offset is not None and size < offset:
            offset = 0  # truncated, or begun anew
            continue
        offset = size if offset is None else offset + len(new)
        *lines, rest = (rest + text.decode(new)).split("\n")
        for line in lines:
            yield line
        if new and offset < size:
            continue
        if not active:
            break
        await asyncio.sleep(_PAUSE_S)
        _path, active = await _output_of(shell, cluster, job, slurm_path)
    if rest:
        yield rest


async def _output_of(shell: Shell, cluster: str, job: str, slurm_path: str | None) -> tuple[str, bool]:
    """Return the path of the job's output, and whether the job may still write to it."""
    nonce = framing.new_nonce()
    asked = {
        "squeue": ("squeue", "-h", "-a", "-t", "all", "-j", job, "-O", f"state:\x1e{nonce},stdout:\x1e{nonce}"),
        "scontrol": ("scontrol", "show", "job", job),
    }
    answer = await shell.run(
        framing.script(asked, nonce, timeout_s=_TIMEOUT_S, slurm_path=slurm_path), timeout_s=2 * _TIMEOUT_S
    )
    found = framing.frames(answer.out, answer.err, nonce, asked)
    listed = found.get("squeue")
    if listed is None or listed.code != 0 or not listed.out.strip():
        words = said(listed) if listed is not None and listed.err.strip() else None
        raise NotFound("job", job, cluster=cluster, hint=words)
    state, pattern, *_more = decode(listed.out).split(f"\x1e{nonce}")
    shown = decode(found["scontrol"].out) if "scontrol" in found else ""
    path = output_path(pattern, shown)
    if path is None:
        raise Unsupported(f"job {job} has no output file", cluster=cluster, capability="logs")
    return path, job_state(state.strip()) in ACTIVE_STATES


def output_path(pattern: str, shown: str) -> str | None:
    """Return the path of the output: squeue's pattern (`/x/%j.out`), filled in as `scontrol show job` shows it.

    A job's name or comment with a line break can bring a `StdOut=` of its own into scontrol's words, so the path must
    fit the pattern, which squeue prints apart from all other text. None if there is no file.
    """
    if not pattern.startswith("/") or pattern == "/dev/null":
        return None
    parts = _SYMBOL.split(pattern)
    fits = re.compile(".*".join(re.escape(part) for part in parts))
    for path in _STDOUT.findall(shown):
        if fits.fullmatch(path):
            return str(path)
    return pattern if len(parts) == 1 else None


async def _read(shell: Shell, cluster: str, path: str, offset: int | None) -> tuple[int, bytes]:
    """Return the file's size and what stands from the offset on; the last 64 KiB where there is none."""
    file = shlex.quote(path)
    what = f"tail -c {_TAIL_BYTES}" if offset is None else f"tail -c +{offset + 1}"
    script = f'f={file}\ntest -f "$f" && wc -c <"$f" && {what} <"$f" | head -c {_CHUNK_BYTES}\n'
    answer = await shell.run(script, timeout_s=_TIMEOUT_S)
    head, mark, body = answer.out.partition(b"\n")
    if not mark or not head.strip().isdigit():
        words = answer.err.decode(errors="backslashreplace").strip().splitlines()
        reason = words[-1] if words else "no such file there"
        raise Unsupported(f"{path} can't be read on {shell.where}: {reason}", cluster=cluster, capability="logs")
    return int(head), body
