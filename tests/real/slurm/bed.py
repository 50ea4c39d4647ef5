"""A real Slurm cluster on this machine, for tests.

    bed.py up|down|status|scenario|hostile|reset [DIR]
    bed.py stop|start NAME [DIR]

munged, mariadbd, slurmdbd, slurmctld, eight slurmd and an sshd run as ordinary processes on loopback; jobs really run,
as real users. Needs root and Debian's packages (12 or 13), no systemd, no cgroups, no GPU. A folder that was up before
starts in seconds. Ports: SLURMBED_PORT_BASE (17000; the daemons use base+17 to base+306) and SLURMBED_SSH_PORT (2222).
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import bed_jobs
from bed_config import (
    ACCOUNTING_AFTER,
    ACCOUNTING_BEFORE,
    CLUSTER,
    DEFAULT_DIR,
    NODES,
    PATH,
    USERS,
    Bed,
    BedError,
    bed_at,
    files,
)
from bed_process import descendants, end, leftovers, run, running_pid, spawn, stop_daemon, tails, wait_for

DAEMONS = ("munged", "mariadbd", "slurmdbd", "slurmctld", *NODES, "sshd")
PROGRAMS = (
    "munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sshd", "ssh", "setpriv",
)  # fmt: skip
MARK = "bed.json"  # a folder with this file is ours to empty


def missing() -> list[str]:
    """Programs of the bed that are not installed here."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@contextmanager
def _locked(bed: Bed) -> Iterator[None]:
    bed.dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (bed.dir / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _own(path: Path, user: str, mode: int) -> None:
    path.mkdir(exist_ok=True)
    entry = pwd.getpwnam(user)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    path.chmod(mode)


def _check_parents(bed: Bed) -> None:
    for parent in bed.dir.parents:
        if not parent.stat().st_mode & 0o001:
            raise BedError(f"{parent} is closed to other users: their jobs could not read {bed.slurm_conf}")


def _users(bed: Bed) -> None:
    for user in USERS:
        try:
            pwd.getpwnam(user)
        except KeyError:
            subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", user], check=True, env=bed.env)
        # useradd leaves '!', which an sshd without PAM takes for a locked account
        subprocess.run(["usermod", "-p", "*", user], check=True, env=bed.env)


def _ssh_keys(bed: Bed) -> None:
    folder = bed.dir / "ssh"
    for name in ("host_ed25519", "id_bed"):
        if not (folder / name).exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    (folder / "authorized_keys").write_text((folder / "id_bed.pub").read_text())
    kind, key, *_ = (folder / "host_ed25519.pub").read_text().split()
    bed.known_hosts.write_text(f"[127.0.0.1]:{bed.ssh_port} {kind} {key}\n")


def _prepare(bed: Bed) -> None:
    """Folders, keys, users and configuration; ports may have changed since the last time, so all is written anew."""
    for name, user, mode in (
        ("etc", "root", 0o755), ("ssh", "root", 0o755), ("gres", "root", 0o755), ("spool", "root", 0o755),
        ("run", "slurm", 0o755), ("log", "slurm", 0o755), ("state", "slurm", 0o755), ("munge", "munge", 0o700),
        ("run/munge", "munge", 0o755), ("run/mysql", "mysql", 0o755), ("mysql", "mysql", 0o700),
    ):  # fmt: skip
        _own(bed.dir / name, user, mode)
    slurm, munge = pwd.getpwnam("slurm"), pwd.getpwnam("munge")
    for path, owner, size in (
        (bed.dir / "munge" / "munge.key", munge, 128),
        (bed.dir / "state" / "jwt_hs256.key", slurm, 32),
    ):
        if not path.exists():
            path.touch(mode=0o600)
            path.write_bytes(secrets.token_bytes(size))
            os.chown(path, owner.pw_uid, owner.pw_gid)
    for index in range(8):
        device = bed.dir / "gres" / f"nvidia{index}"
        if not device.exists() and subprocess.run(["mknod", device, "c", "1", "3"], check=False).returncode:
            device.touch()  # no right to make devices: slurmd takes plain files too, with a line in its log
    _users(bed)
    _ssh_keys(bed)
    for name, text in files(bed).items():
        (bed.dir / name).write_text(text)
    dbd = bed.dir / "etc" / "slurmdbd.conf"
    dbd.chmod(0o600)
    os.chown(dbd, slurm.pw_uid, slurm.pw_gid)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def _command(bed: Bed, name: str) -> list[str]:
    d = bed.dir
    if name == "munged":
        return [
            "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground", "--force",
            f"--key-file={d}/munge/munge.key", f"--socket={bed.munge_socket}", f"--seed-file={d}/munge/munge.seed",
            f"--log-file={d}/munge/munged.log", f"--pid-file={d}/run/munge/munged.pid", "--num-threads=2",
        ]  # fmt: skip
    if name == "mariadbd":
        return [
            "mariadbd", "--no-defaults", "--user=mysql", f"--datadir={d}/mysql", f"--socket={bed.mysql_socket}",
            f"--pid-file={d}/run/mysql/mysqld.pid", "--bind-address=127.0.0.1", f"--port={bed.base + 306}",
            "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-lock-wait-timeout=900",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--skip-log-bin",
            "--performance-schema=OFF", "--skip-name-resolve",
        ]  # fmt: skip
    if name == "sshd":
        # sshd insists on an absolute path, because it executes itself again
        return [shutil.which("sshd", path=PATH) or "sshd", "-D", "-e", "-f", str(d / "ssh" / "sshd_config")]
    if name in NODES:
        return ["slurmd", "-D", "-N", name]
    return [name, "-D"]


def _logs(bed: Bed, name: str) -> list[Path]:
    log = bed.dir / "log"
    own = log / (f"slurmd.{name}.log" if name in NODES else f"{name}.log")
    return [path for path in (own, bed.dir / "munge" / "munged.log", log / f"{name}.out") if path.exists()]


def _ok(bed: Bed, *argv: str) -> bool:
    return run(bed, "root", argv, timeout=30).returncode == 0


def _sql(bed: Bed, text: str) -> bool:
    return _ok(bed, "mariadb", "--no-defaults", f"--socket={bed.mysql_socket}", "-u", "root", "-e", text)


def node_states(bed: Bed) -> dict[str, str]:
    """Node to its state as sinfo writes it (`idle`, `mixed*`, `drained` ...); empty when slurmctld is silent."""
    done = run(bed, "root", ["sinfo", "-h", "-N", "-o", "%N %T"], timeout=30)
    return dict(line.split() for line in done.stdout.splitlines()) if done.returncode == 0 else {}


def _answers(state: str) -> bool:
    return bool(state) and not state.endswith("*") and not state.startswith("unk")


def _ready(bed: Bed, name: str) -> bool:
    if name == "munged":
        return _ok(bed, "munge", "-n", f"--socket={bed.munge_socket}")
    if name == "mariadbd":
        return _sql(bed, "select 1")
    if name == "slurmdbd":
        return _ok(bed, "sacctmgr", "-n", "show", "cluster")
    if name == "slurmctld":
        return _ok(bed, "scontrol", "ping")
    if name == "sshd":
        return _ok(bed, "ssh", "-F", str(bed.ssh_config), "slurmbed-opsadmin", "true")
    return _answers(node_states(bed).get(name, ""))


def start(bed: Bed, name: str, *, wait: bool = True) -> None:
    """Start one daemon (a name of DAEMONS) unless it runs, and wait until it answers.

    After a start of slurmctld its nodes are `unknown` for some seconds: that is waited for, too.
    """
    if running_pid(bed, name) is None:
        spawn(bed, name, _command(bed, name))
    if wait:
        await_ready(bed, name)
    if name == "slurmctld":
        for node in NODES:
            if running_pid(bed, node) is not None:
                await_ready(bed, node)


def await_ready(bed: Bed, name: str, seconds: float = 90) -> None:
    """Wait until a daemon answers; fails at once, with its log, when it has ended instead."""

    def probe() -> bool:
        if running_pid(bed, name) is None:
            raise BedError(f"{name} ended instead of answering\n{tails(_logs(bed, name))}")
        return _ready(bed, name)

    wait_for(f"answer of {name}", probe, seconds, _logs(bed, name))


def stop(bed: Bed, name: str, *, hard: bool = False) -> None:
    """Stop one daemon (`hard`: SIGKILL, as a crash); for sshd its established sessions end with it."""
    if name == "sshd":
        kill_ssh_sessions(bed)
    stop_daemon(bed, name, signal.SIGKILL if hard else signal.SIGTERM)


def kill_ssh_sessions(bed: Bed) -> None:
    """End every established SSH session, as a lost network would; the listener goes on."""
    pid = running_pid(bed, "sshd")
    if pid is not None:
        end(descendants(pid), first=signal.SIGKILL)


def _sacctmgr(bed: Bed, lines: str) -> None:
    done = run(bed, "root", ["sacctmgr", "-i"], stdin=lines, timeout=120)
    if done.returncode or "error" in done.stderr.lower():
        raise BedError(f"sacctmgr could not set up the accounting:\n{done.stdout}{done.stderr}")


def _empty(bed: Bed) -> None:
    """Clear a folder whose first start was not finished; never one that is not ours."""
    ours = [entry for entry in bed.dir.iterdir() if entry.name != ".lock"]
    if ours and not (bed.dir / MARK).exists():
        raise BedError(f"{bed.dir} is not empty and not a bed: it is left alone")
    for name in reversed(DAEMONS):
        stop(bed, name)
    for entry in ours:
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _first_time(bed: Bed) -> None:
    subprocess.run(
        [
            "mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={bed.dir}/mysql",
            "--auth-root-authentication-method=socket", "--skip-test-db",
        ],
        check=True, capture_output=True, env=bed.env,
    )  # fmt: skip
    start(bed, "mariadbd")
    created = _sql(
        bed,
        "create database if not exists slurm_acct_db character set utf8mb4;"
        "create user if not exists 'slurm'@'127.0.0.1' identified by 'slurmbed';"
        "grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1';",
    )
    if not created:
        raise BedError("mariadbd refused to create slurmdbd's database")


def up(folder: Path | str = DEFAULT_DIR) -> Bed:
    """Bring the bed up, or complete one that is partly up; returns when all nodes answer.

    Raises BedError, with the log lines that tell why.
    """
    if os.geteuid() != 0:
        raise BedError("the bed needs root: its jobs run as other users")
    if absent := missing():
        raise BedError(f"not installed: {', '.join(absent)}")
    bed = bed_at(folder)
    with _locked(bed):
        _check_parents(bed)
        mark = bed.dir / MARK
        fresh = not mark.exists() or not json.loads(mark.read_text())["complete"]
        if fresh:
            _empty(bed)
            mark.write_text('{"complete": false}\n')
        _prepare(bed)
        start(bed, "munged")
        if fresh:
            _first_time(bed)
        start(bed, "mariadbd")
        start(bed, "slurmdbd")
        if fresh:
            _sacctmgr(bed, f"add cluster {CLUSTER}\n" + ACCOUNTING_BEFORE)
        start(bed, "slurmctld")
        if fresh:
            _sacctmgr(bed, ACCOUNTING_AFTER)
        for name in NODES:
            start(bed, name, wait=False)
        start(bed, "sshd")
        for name in NODES:
            await_ready(bed, name)
        if fresh:
            bed_jobs.save_limits(bed)
            mark.write_text('{"complete": true}\n')
    return bed


def down(folder: Path | str = DEFAULT_DIR) -> None:
    """Stop everything, jobs first; nothing of the bed runs afterwards, its folder stays for the next start."""
    bed = bed_at(folder)
    with _locked(bed):
        if running_pid(bed, "slurmctld") is not None and running_pid(bed, "munged") is not None:
            bed_jobs.cancel_all(bed)
        for name in reversed(DAEMONS):
            stop(bed, name)
        end(leftovers(bed), first=signal.SIGKILL)


def status(folder: Path | str = DEFAULT_DIR) -> dict[str, str]:
    """Daemon to `up`, `silent` (runs, does not answer) or `down`; for a node its state as sinfo writes it."""
    bed = bed_at(folder)
    states = node_states(bed)
    result = {}
    for name in DAEMONS:
        if running_pid(bed, name) is None:
            result[name] = "down"
        elif name in NODES:
            result[name] = states.get(name, "silent")
        else:
            result[name] = "up" if _ready(bed, name) else "silent"
    return result


class SlurmBed:
    """The bed as tests hold it: paths, users, commands as a user, work for the cluster, and ways to break it."""

    users = USERS

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.dir = bed.dir
        self.slurm_conf = bed.slurm_conf
        self.ssh_config = bed.ssh_config
        self.ssh_key = bed.ssh_key
        self.ssh_port = bed.ssh_port
        self.known_hosts = bed.known_hosts

    def host(self, user: str) -> str:
        """The name under which `ssh_config` knows this user's login."""
        return f"slurmbed-{user}"

    def run(
        self, user: str, argv: Sequence[str], *, stdin: str = "", timeout: float = 60, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's own tools as a user of the bed (`root` included), past the program under test."""
        return run(self.bed, user, argv, stdin=stdin, timeout=timeout, check=check)

    def scenario(self, *, timeout_job: bool = False) -> dict[str, bed_jobs.Job]:
        """See `bed_jobs.scenario`; resets the bed first."""
        return bed_jobs.scenario(self.bed, timeout_job=timeout_job)

    def hostile(self) -> dict[int, str]:
        """See `bed_jobs.hostile`; adds to whatever is queued."""
        return bed_jobs.hostile(self.bed)

    def submit(self, user: str, name: str, *options: str, body: str = "exec sleep infinity") -> int:
        """See `bed_jobs.submit`."""
        return bed_jobs.submit(self.bed, user, name, *options, body=body)

    def states(self) -> dict[int, tuple[str, str]]:
        """State and reason of every job squeue knows, by id."""
        return bed_jobs.states(self.bed)

    def node_states(self) -> dict[str, str]:
        """Node to state, as sinfo writes it."""
        return node_states(self.bed)

    def reset(self) -> None:
        """See `bed_jobs.reset`."""
        bed_jobs.reset(self.bed)

    def stop(self, name: str, *, hard: bool = False) -> None:
        """Stop one daemon of DAEMONS; `hard` as a crash would."""
        stop(self.bed, name, hard=hard)

    def start(self, name: str) -> None:
        """Start one daemon and wait until it answers."""
        start(self.bed, name)

    @contextmanager
    def broken(self, name: str, *, hard: bool = False) -> Iterator[None]:
        """The bed without one daemon, for the length of a `with`; whole again after it."""
        self.stop(name, hard=hard)
        try:
            yield
        finally:
            self.start(name)

    def kill_ssh_sessions(self) -> None:
        """End every established SSH session; the listener goes on."""
        kill_ssh_sessions(self.bed)

    def wait_for(self, what: str, probe: Callable[[], bool], seconds: float = 60) -> None:
        """Poll until `probe` holds; BedError naming `what` otherwise."""
        wait_for(what, probe, seconds, [self.dir / "log" / "slurmctld.log"])


def main(argv: list[str]) -> int:
    """The command: prints what the Python functions return, one thing a line."""
    verb, *rest = argv or [""]
    name = rest.pop(0) if verb in {"stop", "start"} and rest else ""
    known = verb in {"up", "down", "status", "scenario", "hostile", "reset"} or name in DAEMONS
    if not known or len(rest) > 1:
        print(f"{__doc__}\nNAME is one of: {' '.join(DAEMONS)}", file=sys.stderr)
        return 2
    folder = Path(rest[0]) if rest else DEFAULT_DIR
    bed = bed_at(folder)
    try:
        if verb == "up":
            up(folder)
            print(f"SLURM_CONF={bed.slurm_conf}\nSSH_CONFIG={bed.ssh_config}")
        elif verb == "down":
            down(folder)
        elif verb == "status":
            for daemon, state in status(folder).items():
                print(f"{daemon}\t{state}")
        elif verb == "scenario":
            for title, job in bed_jobs.scenario(bed).items():
                print(f"{job.id}\t{title}\t{job.state}\t{job.reason}")
        elif verb == "hostile":
            for number, title in bed_jobs.hostile(bed).items():
                print(f"{number}\t{title!r}")
        elif verb == "reset":
            bed_jobs.reset(bed)
        elif verb == "start":
            start(bed, name)
        else:
            stop(bed, name)
    except BedError as error:
        print(f"bed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
