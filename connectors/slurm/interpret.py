"""One refresh's answers into a Snapshot. Pure: the time of the answers is now.

Without jobs, nodes or partitions nothing true could be shown: those raise. Everything else that is missing is a gap.
"""

import re
from datetime import datetime
from typing import NamedTuple

import polars as pl

from connectors.connector import Answer, Gap, Meta, Raw
from connectors.errors import Malformed, Unreachable
from connectors.model import Snapshot, empty
from connectors.notation import NotationError
from connectors.rules import SlurmRules
from connectors.slurm.abilities import capabilities
from connectors.slurm.accounting import AssocMgr, read_assoc_mgr, without_id
from connectors.slurm.binding import excluded_column, held_by, with_rules
from connectors.slurm.columns import Unread, decode, said
from connectors.slurm.commands import NOT_SLURM
from connectors.slurm.config import config_values
from connectors.slurm.framing import BROKEN_OFF, NOT_FOUND, TIMED_OUT
from connectors.slurm.jobs import SOURCE, jobs_table
from connectors.slurm.nodes import events_table, nodes_tables
from connectors.slurm.priorities import priority_columns
from connectors.slurm.queues import queue_counts, queues_table, quotas_table
from connectors.slurm.records import header_table, listed
from connectors.slurm.reservations import reservations_table
from connectors.slurm.scheduling import Scopes, read_licenses, slurm_rules
from connectors.slurm.sdiag import scheduler_events
from connectors.slurm.topology import domain_column

NEEDED = ("squeue", "node", "partition")
_AFFECTS = {
    "config": ("rules", "jobs.preemptible"),
    "assoc_mgr": ("quotas.used",),
    "qos": ("rules", "jobs.preemptible"),
    "assoc": ("rules",),
    "sshare": ("queues.fairshare_ratio",),
    "sprio": ("jobs.slurm_priority_age",),
    "admin": ("queues.writable",),
    "excluded": ("jobs.slurm_excluded_nodes",),
    "reservation": ("reservations",),
    "licenses": ("rules",),
    "topology": ("nodes.domain",),
    "sdiag": ("events",),
    "date": ("meta.clock_skew_s",),
    "user": ("meta.user",),
}
STALE = "stale:"
# how an answer looks that is one: what else came out of the command is said as a gap, never read as "nothing there"
_LOOKS = {
    "config": r"Configuration data",
    "assoc_mgr": r"Current Association Manager state",
    "qos": r"Name\|",
    "assoc": r"(Cluster|Account)\|",
    "sshare": r"\s*Account\|",
    "sprio": r"\s*\d+\|",
    "admin": r"[^|\n]+\|[^|\n]*\|",
    "excluded": r"\d+ ",
    "reservation": r"ReservationName=|No reservations",
    "sdiag": r"\*+\s+sdiag output",
    "licenses": r"LicenseName=|No licenses",
    "date": r"\d+(\.[%\w]+)?$",
}


def failure(name: str, answer: Answer) -> str:
    """Return why a command gave no answer, in Slurm's own words where it has some."""
    program = answer.asked.split(" ")[0] or name
    if answer.code == BROKEN_OFF:
        return "the answer broke off"
    if answer.code == TIMED_OUT and not answer.err.strip():
        return "no answer in time"
    if answer.code == NOT_FOUND:
        return f"{program} is not installed there, or not in the PATH of a login without profile"
    return said(answer)


def check(raw: Raw) -> None:
    """Raise Unreachable, with Slurm's own words, unless what is needed for any picture was answered."""
    for name in NEEDED:
        answer = raw.answers.get(name)
        if answer is None:
            raise Unreachable("no answer", cluster=raw.cluster, source=name)
        if answer.code != 0:
            says = failure(name, answer)
            hint = "name the folder of Slurm's programs: slurm_path" if answer.code == NOT_FOUND else _hint(says)
            raise Unreachable(says, cluster=raw.cluster, source=name, hint=hint)
    for name, mark in (("node", b"NodeName="), ("partition", b"PartitionName=")):
        if not raw.answers[name].out.startswith(mark) and raw.answers[name].out.strip():
            excerpt = decode(raw.answers[name].out[:200])
            raise Malformed("not what Slurm prints", cluster=raw.cluster, source=name, excerpt=excerpt)


_HINTS = (
    ("Unable to contact slurm controller", "slurmctld does not run or can't be reached; running jobs go on"),
    ("Socket timed out", "slurmctld is overloaded; it is asked more rarely until it answers"),
    ("authentication", "munge does not answer there, or keys or clocks differ: munge -n | unmunge"),
    ("munge", "munge does not answer there, or keys or clocks differ: munge -n | unmunge"),
)


def _hint(says: str) -> str | None:
    """Return what Slurm's words usually mean for whoever is on call."""
    return next((hint for words, hint in _HINTS if words.lower() in says.lower()), None)


class _Reading:
    """The answers of one refresh, and the gaps met while reading them."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.now = raw.taken_at
        self.gaps: list[Gap] = []

    def text(self, name: str) -> str | None:
        """Return an answer's text; None, and a gap, where it failed."""
        answer = self.raw.answers.get(name)
        if answer is None:
            self.gap(name, "there is no answer", _AFFECTS.get(name, ()))
            return None
        stale = self.raw.notes.get(STALE + name)
        if stale is not None:
            self.gap(name, f"{stale}; the answer of {self.raw.notes.get('as_of:' + name)} is shown", ())
        if answer.code != 0:
            self.gap(name, failure(name, answer), _AFFECTS.get(name, ()))
            return None
        text = decode(answer.out)
        looks = _LOOKS.get(name)
        if looks is not None and text.strip() and re.match(looks, text.strip()) is None:
            self.gap(name, f"not what Slurm prints: {text.strip()[:60]!r}", _AFFECTS.get(name, ()))
            return None
        return text

    def gap(self, name: str, reason: str, affects: tuple[str, ...], since: datetime | None = None) -> None:
        answer = self.raw.answers.get(name)
        source = " ".join(_words_of(answer.asked)) if answer else name
        self.gaps.append(Gap(source=source, reason=reason, since=since or self.now, affects=affects))


def _words_of(asked: str) -> list[str]:
    """Return the program and its verb, without options: `scontrol show assoc_mgr`."""
    match = re.search(r"(scontrol|sacctmgr)(?: -\S+)* (show \w+)", asked)
    return [match[1], match[2]] if match else asked.split(" ")[:1]


def interpret(raw: Raw) -> Snapshot:
    """Return what the answers mean. Unreachable or Malformed where there is nothing to show."""
    check(raw)
    reading = _Reading(raw)
    jobs, gaps = jobs_table(raw.answers["squeue"], raw.taken_at)
    nodes, gpus, node_gaps = nodes_tables(raw.answers["node"], raw.taken_at)
    reading.gaps += [*gaps, *node_gaps]
    config = config_values(reading.text("config") or "")
    live = _assoc_mgr(reading, config)
    rules = _rules(reading, config, live, nodes)
    role = _role(reading, config, rules)
    jobs = with_rules(jobs, rules, nodes)
    jobs = jobs.with_columns(_excluded(reading, jobs), *_priorities(reading, rules, jobs))
    counts = queue_counts(jobs)
    tables = {
        "jobs": jobs,
        "nodes": nodes.with_columns(domain_column(raw.answers.get("topology"), nodes["name"].to_list())),
        "gpus": held_by(gpus, jobs),
        "queues": queues_table(rules, counts, role.level, role.coordinator_of),
        "quotas": quotas_table(rules, jobs, counts, live, sees_all=role.sees_all),
        "reservations": _reservations(reading, nodes),
        "events": _events(reading, nodes, rules),
    }
    meta = _meta(reading, config, role)
    return Snapshot.of(meta, rules=rules, gaps=tuple(reading.gaps), **tables)


def _events(reading: _Reading, nodes: pl.DataFrame, rules: SlurmRules) -> pl.DataFrame:
    scheduler = scheduler_events(reading.text("sdiag") or "", rules, reading.now)
    return pl.concat([events_table(nodes), scheduler], how="diagonal_relaxed")


def _assoc_mgr(reading: _Reading, config: dict[str, str]) -> AssocMgr | None:
    if no_accounting(config):
        return None
    text = reading.text("assoc_mgr")
    if text is None:
        return None
    try:
        return read_assoc_mgr(text)
    except (NotationError, KeyError) as error:
        reading.gap("assoc_mgr", f"can't be read: {error}", _AFFECTS["assoc_mgr"])
        return None


def _rules(reading: _Reading, config: dict[str, str], live: AssocMgr | None, nodes: pl.DataFrame) -> SlurmRules:
    """Return the rules; a source that can't be read is left out, and is a gap."""
    texts = {name: None if no_accounting(config) else reading.text(name) for name in ("qos", "assoc", "sshare")}
    for name, text in texts.items():
        try:
            header_table(text or "")
        except ValueError:
            reading.gap(name, "its rows have not the columns of its header", _AFFECTS[name])
            texts[name] = None
    partition_text = decode(reading.raw.answers["partition"].out)
    licenses = read_licenses(reading.raw.answers.get("licenses"))
    gpu_types = tuple(sorted(set(nodes["gpu_model"].drop_nulls())))
    try:
        return slurm_rules(
            config, partition_text, live, qos=texts["qos"], assoc=texts["assoc"], sshare=texts["sshare"],
            licenses=licenses, gpu_types=gpu_types,
        )  # fmt: skip
    except (NotationError, KeyError, ValueError) as error:
        reading.gap("config", f"can't be read: {error}", ("rules",))
    try:
        return slurm_rules(
            {}, partition_text, None, qos=None, assoc=None, sshare=None, licenses=licenses, gpu_types=gpu_types
        )
    except (NotationError, ValueError) as error:
        raise Malformed(
            f"can't be read: {error}", cluster=reading.raw.cluster, source="scontrol show partition",
            excerpt=partition_text,
        ) from error  # fmt: skip


def no_accounting(config: dict[str, str]) -> bool:
    """Whether the cluster keeps no accounting: then there are no QOS, associations and shares, and none is missing."""
    return config.get("AccountingStorageType") in {"accounting_storage/none", "(null)", ""}


class _Role(NamedTuple):
    level: str | None
    coordinator_of: frozenset[str]
    sees_all: bool
    user: str | None


def _role(reading: _Reading, config: dict[str, str], rules: SlurmRules) -> _Role:
    """Return what the user may administer: sacctmgr's word, or "Administrator" for root and SlurmUser."""
    user = (reading.text("user") or "").strip() or None
    level: str | None = None
    coordinated: set[str] = set()
    if user is not None and user in {"root", without_id(config.get("SlurmUser", ""))}:
        level = "Administrator"
    elif no_accounting(config):
        level = "None"
    elif (text := reading.text("admin")) is not None:
        rows = [line.split("|") for line in text.splitlines() if line.count("|") >= 3]
        level = rows[0][1] if rows else "None"
        coordinated = {account for row in rows for account in listed(row[3])}
        scopes = Scopes(rules)
        coordinated |= {
            one.account for one in rules.associations or ()
            if not {f"account:{name}" for name in coordinated}.isdisjoint(scopes.accounts(one.account))
        } if coordinated else set()  # fmt: skip
    private = "jobs" in {word.lower() for word in listed(config.get("PrivateData"))}
    sees_all = not private or level in {"Administrator", "Operator"}
    if not sees_all:
        reading.gap("config", "PrivateData=jobs: other users' jobs are not shown to you", ("jobs",))
    return _Role(level, frozenset(coordinated), sees_all, user)


def _excluded(reading: _Reading, jobs: pl.DataFrame) -> pl.Series:
    unread = Unread(SOURCE, "jobs", reading.now)
    column = excluded_column(reading.text("excluded"), jobs["slurm_job_id"].to_list(), unread)
    reading.gaps += unread.gaps(len(jobs))
    return column


def _priorities(reading: _Reading, rules: SlurmRules, jobs: pl.DataFrame) -> list[pl.Series]:
    text = reading.text("sprio") if rules.priority_type == "priority/multifactor" else None
    return priority_columns(text or "", jobs["slurm_job_id"].to_list())


def _reservations(reading: _Reading, nodes: pl.DataFrame) -> pl.DataFrame:
    if reading.text("reservation") is None:
        return empty("reservations").drop("cluster")
    frame, gaps = reservations_table(reading.raw.answers["reservation"], nodes, reading.now)
    reading.gaps += gaps
    return frame


def _meta(reading: _Reading, config: dict[str, str], role: _Role) -> Meta:
    raw = reading.raw
    slow = {name for name in raw.answers if raw.notes.get("reused:" + name)}
    calls = sum(1 for name in raw.answers if name not in NOT_SLURM and name not in slow)
    return Meta(
        cluster=raw.cluster,
        system=raw.system,
        version=config.get("SLURM_VERSION"),
        taken_at=raw.taken_at,
        took_ms=raw.took_ms,
        calls=calls,
        clock_skew_s=_skew(reading),
        user=role.user,
        capabilities=capabilities(role.level, role.coordinator_of),
    )


def _skew(reading: _Reading) -> float | None:
    """Return the cluster's clock minus ours; `date` runs last, so it is held against the time of the answer."""
    text, ended = reading.text("date"), reading.raw.notes.get("ended_at")
    if text is None or ended is None:
        return None
    try:
        theirs = float(text.strip().removesuffix(".%N").removesuffix(".N"))
        return round(theirs - datetime.fromisoformat(ended).timestamp(), 1)
    except ValueError:
        reading.gap("date", f"not a time: {text.strip()[:40]}", ("meta.clock_skew_s",))
        return None
