"""The config: one TOML file that names clusters. Errors name the file, the line and the key.

language = "zh_CN"            # else the environment decides
theme = "gpudeck-dark"
ascii = false

[clusters.hpc-a]
system = "slurm"              # the other keys are the connector's
host = "login1.example.org"
access = "write"              # "read" (default) changes nothing
passphrase = { env = "SSH_PASSPHRASE" }   # or { keyring = "service/user" } or { command = "pass show x" }
"""

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from connectors.errors import BadWords, NotFound
from connectors.notation import NotationError, parse_human_duration
from connectors.secret import Secret
from console.paths import config_file

Access = Literal["read", "write"]
_COMMON_KEYS = {"system", "access", "history"}
_TOP_KEYS = ("language", "theme", "ascii", "clusters")
_SECRET_KEY = re.compile(r"(password|passphrase|token|secret)$")
_SECRET_PLACES = {"env", "keyring", "command"}
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
DEMO_PREFIX = "demo:"
DEMO_SCENARIOS = ("lab48", "mid128", "quad")


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster: its name here, its system, and the connector's own settings."""

    name: str
    system: str
    access: Access = "read"
    history_s: float = 7 * 86400.0
    settings: dict[str, Any] = {}


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says; `path` is None where there is none."""

    path: Path | None = None
    text: str = ""
    language: str | None = None
    theme: str | None = None
    ascii: bool = False
    clusters: tuple[ClusterConfig, ...] = ()

    def cluster(self, name: str) -> ClusterConfig:
        """Return a cluster by name, `demo:SCENARIO` too; NotFound names what comes near."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        if name.startswith(DEMO_PREFIX):
            return demo_cluster(name.removeprefix(DEMO_PREFIX))
        names = [cluster.name for cluster in self.clusters]
        hint = None if names else f"no cluster is configured in {self.path or config_file()}"
        raise NotFound("cluster", name, near=get_close_matches(name, names), hint=hint)

    def selected(self, names: Sequence[str]) -> tuple[ClusterConfig, ...]:
        """Return the named clusters in that order, or all of them; BadWords where there is none."""
        if names:
            return tuple(self.cluster(name) for name in dict.fromkeys(names))
        if not self.clusters:
            raise BadWords(
                f"no cluster is configured in {self.path or config_file()}",
                hint="name one there (see README), or try `gpudeck demo` or `-c demo:lab48`",
            )
        return self.clusters

    def complain(self, cluster: str, error: BadWords) -> BadWords:
        """Return the connector's complaint about a setting (its `text` is the key) with the file and the line."""
        if self.path is None:
            return error
        line = line_of(self.text, ("clusters", cluster), error.text)
        return BadWords(
            f"{self.path}, line {line}: [clusters.{cluster}] {error.what}", text=error.text, hint=error.hint
        )


def demo_cluster(scenario: str, **settings: Any) -> ClusterConfig:
    """Return the config of an embedded simulated cluster; NotFound if there is no such scenario."""
    if scenario not in DEMO_SCENARIOS:
        raise NotFound("demo cluster", scenario, near=DEMO_SCENARIOS)
    return ClusterConfig(
        name=DEMO_PREFIX + scenario, system="demo", access="write", settings={"scenario": scenario, **settings}
    )


def load(path: Path | None = None) -> Config:
    """Read the config; a file that was named must be there, the default one may be absent. Raises BadWords."""
    wanted = path or config_file()
    try:
        text = wanted.read_bytes().decode()
    except FileNotFoundError:
        if path is None:
            return Config()
        raise BadWords(f"the config file {wanted} is not there") from None
    except OSError as error:
        raise BadWords(f"the config file {wanted} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadWords(f"the config file {wanted} is not UTF-8 (byte {error.start})") from error
    return parse(text, wanted)


def parse(text: str, path: Path) -> Config:
    """Read the text of a config file; `path` is for the messages. Raises BadWords with file, line and key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        says = str(error).replace("at end of document", f"at line {len(text.splitlines()) or 1}, the end")
        raise BadWords(f"{path}: {says}", text=text) from error
    reader = _Reader(text, path)
    for key in data:
        if key not in _TOP_KEYS:
            raise reader.complaint((), key, "is not a key of the config", near=get_close_matches(key, _TOP_KEYS))
    tables = reader.typed(data, (), "clusters", dict, {})
    return Config(
        path=path,
        text=text,
        language=reader.typed(data, (), "language", str, None),
        theme=reader.typed(data, (), "theme", str, None),
        ascii=reader.typed(data, (), "ascii", bool, default=False),
        clusters=tuple(reader.cluster(name, table) for name, table in tables.items()),
    )


class _Reader:
    """Checks values of one file and knows on which line each key stands."""

    def __init__(self, text: str, path: Path) -> None:
        self._text = text
        self._path = path

    def complaint(self, table: tuple[str, ...], key: str, what: str, *, near: Sequence[str] = ()) -> BadWords:
        where = f"[{'.'.join(table)}] " if table else ""
        hint = f"did you mean {', '.join(near)}?" if near else None
        return BadWords(
            f"{self._path}, line {line_of(self._text, table, key)}: {where}{key} {what}", text=key, hint=hint
        )

    def typed(self, data: dict[str, Any], table: tuple[str, ...], key: str, kind: type, default: Any) -> Any:
        value = data.get(key, default)
        if key in data and not isinstance(value, kind):
            raise self.complaint(table, key, f"must be a {kind.__name__}, not {value!r}")
        return value

    def cluster(self, name: str, table: Any) -> ClusterConfig:
        place = ("clusters", name)
        if not isinstance(table, dict):
            raise self.complaint(("clusters",), name, "must be a table with at least `system`")
        if not _CLUSTER_NAME.match(name):
            raise self.complaint(("clusters",), name, "is no name for a cluster: letters, digits and _.- only")
        if "system" not in table:
            raise self.complaint(place, "system", "is missing")
        access = self.typed(table, place, "access", str, "read")
        if access not in {"read", "write"}:
            raise self.complaint(place, "access", f"must be 'read' or 'write', not {access!r}")
        settings = {key: self.setting(place, key, value) for key, value in table.items() if key not in _COMMON_KEYS}
        return ClusterConfig(
            name=name,
            system=self.typed(table, place, "system", str, ""),
            access=cast("Access", access),
            history_s=self.duration(table, place, "history", 7 * 86400.0),
            settings=settings,
        )

    def duration(self, data: dict[str, Any], table: tuple[str, ...], key: str, default: float) -> float:
        text = self.typed(data, table, key, str, None)
        if text is None:
            return default
        try:
            return parse_human_duration(text)
        except NotationError as error:
            raise self.complaint(table, key, f"is not a duration: {error}") from error

    def setting(self, place: tuple[str, ...], key: str, value: Any) -> Any:
        if isinstance(value, dict) and value and set(value) <= _SECRET_PLACES:
            try:
                return msgspec.convert(value, Secret)
            except (msgspec.ValidationError, ValueError) as error:
                raise self.complaint(place, key, f"is not a secret's place: {error}") from error
        if _SECRET_KEY.search(key):
            raise self.complaint(
                place, key, "is a secret and may not stand in the file: use {env=…}, {keyring=…} or {command=…}"
            )
        return value


def line_of(text: str, table: tuple[str, ...], key: str) -> int:
    """Return the line (from 1) on which a key of a table stands; the table's own line, or 1, where it is not found."""
    assignment = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
    current: tuple[str, ...] = ()
    fallback = 1
    for number, line in enumerate(text.splitlines(), start=1):
        found = _header(line)
        if found:
            current = found
            if current[: len(table) + 1] == (*table, key):
                return number
            if current == table:
                fallback = number
        elif current == table and assignment.match(line):
            return number
    return fallback


def _header(line: str) -> tuple[str, ...]:
    """Return the parts of a table's header (`[clusters."a.b"]`), nothing for any other line."""
    if not line.lstrip().startswith("["):
        return ()
    try:
        inner = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    parts: list[str] = []
    while isinstance(inner, dict) and inner:
        name, inner = next(iter(inner.items()))
        parts.append(name)
    return tuple(parts)
