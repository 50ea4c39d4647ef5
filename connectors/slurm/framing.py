"""One script for one refresh, and its answer taken apart again.

Each command stands between two marker lines on both streams. The markers hold a nonce made for this refresh, so no
banner, no noise of start-up files and no job name can be taken for one. What stands outside of the frames is ignored;
a frame without its end is an answer that broke off.

The commands run in a clean environment: every variable that changes Slurm's output is unset, SLURM_CONF and what logs
in are kept, and times come as seconds since 1970 (SLURM_TIME_FORMAT=%s).
"""

import re
import secrets
import shlex
from collections.abc import Mapping, Sequence

from connectors.connector import Answer

BROKEN_OFF = -1
"""The code of an answer whose end is missing."""

NOT_FOUND = 127
TIMED_OUT = 124

_PRELUDE = r"""
for v in $(env | sed -n 's/^\([A-Z]*_[A-Za-z0-9_]*\)=.*/\1/p'); do
  case $v in
    SLURM_CONF|SLURM_CONF_SERVER|SLURM_JWT|SLURM_SACK_*) ;;
    SLURM_*|SQUEUE_*|SINFO_*|SACCT_*|SACCTMGR_*|SCONTROL_*|SPRIO_*|SSHARE_*|SDIAG_*|SREPORT_*) unset "$v" ;;
  esac
done
unset TZ POSIXLY_CORRECT COLUMNS
SLURM_TIME_FORMAT=%s SLURM_BITSTR_LEN=0 LC_ALL=C.UTF-8
export SLURM_TIME_FORMAT SLURM_BITSTR_LEN LC_ALL
if command -v timeout >/dev/null 2>&1; then limited() { timeout -k 2 "$@"; }; else limited() { shift; "$@"; }; fi
framed() {
  n=$1; t=$2; shift 2
  printf '\n%s begin %s\n' "$N" "$n"; printf '\n%s begin %s\n' "$N" "$n" >&2
  limited "$t" "$@" </dev/null
  c=$?
  printf '\n%s end %s %s\n' "$N" "$n" "$c"; printf '\n%s end %s %s\n' "$N" "$n" "$c" >&2
}
"""
# where Slurm is often installed, behind what the machine itself says: a shell that reads no profile doesn't know them
_USUAL_PLACES = "/usr/local/bin:/opt/slurm/bin:/opt/slurm/current/bin:/usr/local/slurm/bin"


def new_nonce() -> str:
    """Return a nonce that nothing on the cluster can know before the refresh."""
    return secrets.token_hex(12)


def script(
    commands: Mapping[str, Sequence[str]],
    nonce: str,
    *,
    timeout_s: int,
    slurm_path: str | None = None,
    cluster_name: str | None = None,
    vital: str | None = None,
) -> str:
    """Return the POSIX sh script that runs the commands, by answer name, each for at most `timeout_s` seconds.

    If the `vital` one fails, those after it are not asked: without slurmctld each would take its 9 s to say so.
    """
    lines = [f"N={nonce}"]
    first = f"{shlex.quote(slurm_path)}:" if slurm_path else ""
    lines.append(f"PATH={first}$PATH:{_USUAL_PLACES}; export PATH")
    lines.append(_PRELUDE)
    if cluster_name:
        lines.append(f"SLURM_CLUSTERS={shlex.quote(cluster_name)}; export SLURM_CLUSTERS")
    for name, argv in commands.items():
        lines.append(f"framed {shlex.quote(name)} {timeout_s} {shlex.join(argv)}")
        if name == vital:
            lines.append('[ "$c" = 0 ] || exit 0')
    return "\n".join(lines) + "\n:\n"


def frames(out: bytes, err: bytes, nonce: str, commands: Mapping[str, Sequence[str]]) -> dict[str, Answer]:
    """Return the answer of each command that began; one without its end has the code BROKEN_OFF."""
    errors = {name: said for name, _code, said in _frames(err, nonce)}
    return {
        name: Answer(asked=shlex.join(commands[name]), code=code, out=said, err=errors.get(name, b""))
        for name, code, said in _frames(out, nonce)
        if name in commands
    }


def _frames(stream: bytes, nonce: str) -> list[tuple[str, int, bytes]]:
    found: list[tuple[str, int, bytes]] = []
    begin = re.compile(rb"\n" + nonce.encode() + rb" begin ([\w-]+)\n")
    at = 0
    while match := begin.search(stream, at):
        name = match[1].decode()
        end = re.compile(rb"\n%s end %s (\d+)\n" % (nonce.encode(), re.escape(match[1]))).search(
            stream, match.end() - 1
        )
        if end is None:
            following = begin.search(stream, match.end() - 1)
            stop = len(stream) if following is None else following.start()
            found.append((name, BROKEN_OFF, stream[match.end() : stop]))
            at = stop
        else:
            found.append((name, int(end[1]), stream[match.end() : max(match.end(), end.start())]))
            at = end.end() - 1
    return found
