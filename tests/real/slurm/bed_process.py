"""Starting, finding and ending the bed's daemons, and running commands as its users.

Every daemon runs in the foreground in a session of its own, so its pid is known; the pid file carries the process's
start time as well, so that a recycled pid is never taken for ours.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bed_config import Bed, BedError


def tail(path: Path, lines: int = 15) -> str:
    """Last lines of a log, or a line that says it is missing."""
    if not path.exists():
        return f"({path} does not exist)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def tails(logs: Sequence[Path]) -> str:
    """Last lines of several logs, each under its name."""
    return "\n".join(f"--- {log}\n{tail(log)}" for log in logs)


def wait_for(what: str, probe: Callable[[], bool], seconds: float, logs: Sequence[Path] = ()) -> None:
    """Poll `probe` until it holds; BedError with the logs' last lines when `seconds` have passed."""
    end = time.monotonic() + seconds
    while not probe():
        if time.monotonic() > end:
            raise BedError(f"{what} did not happen within {seconds:.0f} s\n{tails(logs)}")
        time.sleep(0.1)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the command name (which may hold spaces): state first, ppid second."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _started(pid: int) -> str:
    """Start time in clock ticks since boot; empty when the process is gone or only waits to be reaped."""
    fields = _stat(pid)
    return "" if not fields or fields[0] == "Z" else fields[19]


def pid_file(bed: Bed, name: str) -> Path:
    return bed.dir / "run" / f"{name}.pid"


def running_pid(bed: Bed, name: str) -> int | None:
    """Pid of the daemon, None when it does not run."""
    try:
        pid, ticks = pid_file(bed, name).read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if _started(int(pid)) == ticks else None


def spawn(bed: Bed, name: str, argv: Sequence[str]) -> None:
    """Start a daemon detached; what it prints goes to log/NAME.out."""
    file = pid_file(bed, name)
    file.unlink(missing_ok=True)
    with (bed.dir / "log" / f"{name}.out").open("ab") as out:
        # The shell writes its own pid and becomes the daemon; setsid -f leaves nothing for us to reap.
        subprocess.run(
            ["setsid", "-f", "sh", "-c", 'echo $$ >"$0"; exec "$@"', str(file), *argv],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=bed.env, cwd="/", check=True,
        )  # fmt: skip
    wait_for(f"start of {name}", lambda: file.exists() and file.read_text().endswith("\n"), 5)
    pid = int(file.read_text())
    file.write_text(f"{pid} {_started(pid)}\n")


def end(pids: Sequence[int], seconds: float = 10, first: signal.Signals = signal.SIGTERM) -> None:
    """Send `first`, wait, then SIGKILL whatever is left."""
    marks = {pid: _started(pid) for pid in pids}

    def left() -> list[int]:
        return [pid for pid, mark in marks.items() if mark and _started(pid) == mark]

    for number, patience in ((first, seconds), (signal.SIGKILL, 5.0)):
        for pid in left():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        until = time.monotonic() + patience
        while left() and time.monotonic() < until:
            time.sleep(0.05)
        if not left():
            return
    raise BedError(f"processes {left()} outlived SIGKILL")


def stop_daemon(bed: Bed, name: str, first: signal.Signals = signal.SIGTERM) -> None:
    """End one daemon; nothing happens when it does not run."""
    pid = running_pid(bed, name)
    if pid is not None:
        end([pid], first=first)
    pid_file(bed, name).unlink(missing_ok=True)


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, parents before children."""
    parents = {each: int(fields[1]) for each in _all_pids() if (fields := _stat(each))}
    found: list[int] = []
    level = [pid]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        found += level
    return found


def leftovers(bed: Bed) -> list[int]:
    """Processes of jobs and steps that outlived their slurmd.

    A slurmstepd wipes its own environment, so it is known by its open log; a job by SLURM_JOB_ID in its environment.
    """
    found = []
    for pid in _all_pids():
        proc = Path(f"/proc/{pid}")
        try:
            name = (proc / "comm").read_text().strip()
            if name == "slurmstepd":
                if any(fd.readlink().is_relative_to(bed.dir) for fd in (proc / "fd").iterdir()):
                    found.append(pid)
                continue
            environ = (proc / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ours = f"SLURM_CONF={bed.slurm_conf}".encode() in environ
        if ours and any(entry.startswith(b"SLURM_JOB_ID=") for entry in environ):
            found.append(pid)
    return found


def run(
    bed: Bed, user: str, argv: Sequence[str], *, stdin: str = "", timeout: float = 60, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command as a Unix user of the bed, with that user's groups and a clean environment."""
    entry = pwd.getpwnam(user)
    env: Mapping[str, str] = {**bed.env, "HOME": entry.pw_dir, "USER": user, "LOGNAME": user, "SHELL": "/bin/sh"}
    become = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={entry.pw_gid}", "--init-groups", "--"]
    done = subprocess.run(
        [*become, *argv], input=stdin, capture_output=True, text=True, encoding="utf-8", errors="surrogateescape",
        env=env, cwd="/tmp", timeout=timeout, check=False,
    )  # fmt: skip
    if check and done.returncode != 0:
        raise BedError(f"[{user}] {' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    return done
