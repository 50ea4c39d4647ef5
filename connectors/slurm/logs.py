"""What a job prints, read from its output file through the shell."""

import asyncio
import codecs
import shlex
from collections.abc import AsyncIterator

from connectors.errors import NotFound, Unsupported
from connectors.slurm import framing
from connectors.slurm.columns import decode, said
from connectors.slurm.states import job_state
from connectors.transport.shell import Shell

_TAIL_BYTES = 64 * 1024
_CHUNK_BYTES = 1024 * 1024
_PAUSE_S = 2.0
_TIMEOUT_S = 20


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
    # squeue, not scontrol: there a job's name with a line break could pretend to be the path of another file
    asked = {"job": ("squeue", "-h", "-a", "-t", "all", "-j", job, "-O", f"state:\x1e{nonce},stdout:\x1e{nonce}")}
    answer = await shell.run(
        framing.script(asked, nonce, timeout_s=_TIMEOUT_S, slurm_path=slurm_path), timeout_s=2 * _TIMEOUT_S
    )
    found = framing.frames(answer.out, answer.err, nonce, asked).get("job")
    if found is None or found.code != 0 or not found.out.strip():
        words = said(found) if found is not None and found.err.strip() else None
        raise NotFound("job", job, cluster=cluster, hint=words)
    state, path, *_more = decode(found.out).split(f"\x1e{nonce}")
    if not path.startswith("/") or path == "/dev/null":
        raise Unsupported(f"job {job} has no output file", cluster=cluster, capability="logs")
    return path, job_state(state.strip()) in {"pending", "running", "suspended", "completing"}


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
