"""The change language of cli.md, read and written in one place for the command line, the prompt and the audit log.

`read` and `write` are inverse: `read([write(item)]) == [item]` for every change and supposition.
"""

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from connectors.change import (
    CHANGE_TYPES,
    AddNodes,
    Cancel,
    Change,
    Drain,
    Hold,
    Release,
    RemoveNodes,
    Requeue,
    Reserve,
    Reshape,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    StopQueue,
    Submit,
    Supposition,
    Unreserve,
    UsePolicy,
    verb,
)
from connectors.errors import BadWords
from connectors.notation import (
    NotationError,
    format_hostlist,
    format_human_duration,
    format_when,
    parse_hostlist,
    parse_human_duration,
    parse_when,
)


class _Now(NamedTuple):
    """What times without a date are read against."""

    now: datetime


_MOST = 10_000  # nodes to add, jobs to suppose: each is simulated


def _count(text: str, _: _Now) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 0 < int(text) <= _MOST):
        raise NotationError("count", text, f"write a whole number from 1 to {_MOST}")
    return int(text)


def _figure(text: str, _: _Now) -> float:
    if text.lower() in {"unlimited", "infinite"}:
        return math.inf
    return _finite(text, _)


def _finite(text: str, _: _Now) -> float:
    try:
        # float() also reads `1_000`, other scripts' digits, blanks around, `inf` and `nan`
        value = float(text) if text.isascii() and text.strip() == text and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise NotationError("figure", text, "write a number of at least 0")
    return value


def _text(text: str, _: _Now) -> str:
    if not text:
        raise NotationError("name", text, "it is empty")
    return text


def _duration(text: str, _: _Now) -> float:
    return parse_human_duration(text)


def _hours(text: str, now: _Now) -> float:
    seconds = round(_finite(text, now) * 3600, 3)
    if seconds == math.inf:
        raise NotationError("number of hours", text, "it is too large")
    return seconds


def _hosts(text: str, _: _Now) -> tuple[str, ...]:
    hosts = parse_hostlist(text)
    if not hosts:
        raise NotationError("host list", text, "it names no node")
    return tuple(dict.fromkeys(hosts))


def _written_hosts(hosts: Sequence[str]) -> str:
    """Return the shortest list that gives the hosts in this order."""
    folded = format_hostlist(hosts)
    return folded if parse_hostlist(folded) == tuple(hosts) else ",".join(format_hostlist([host]) for host in hosts)


def _names(text: str, _: _Now) -> tuple[str, ...]:
    names = tuple(part for part in text.split(",") if part)
    if not names:
        raise NotationError("list of names", text, "it is empty")
    return names


def _moment(text: str, now: _Now) -> datetime:
    return parse_when(text, now.now)


def _plain(value: float) -> str:
    if value == math.inf:
        return "unlimited"
    return str(int(value)) if value == int(value) else repr(float(value))


class _Kind(NamedTuple):
    """How a value is read, and how it is written."""

    read: Callable[[str, _Now], Any]
    write: Callable[[Any], str]


_COUNT = _Kind(_count, str)
_FIGURE = _Kind(_figure, _plain)
_FINITE = _Kind(_finite, _plain)
_TEXT = _Kind(_text, str)
_DURATION = _Kind(_duration, format_human_duration)
_HOURS = _Kind(_hours, lambda seconds: _plain(seconds / 3600))
_HOSTS = _Kind(_hosts, _written_hosts)
_NAMES = _Kind(_names, ",".join)
_MOMENT = _Kind(_moment, format_when)


class _Word(NamedTuple):
    """One `key=` of a verb: the field it sets and how."""

    field: str
    kind: _Kind


class _Form(NamedTuple):
    """How one verb is written: its bare operand, its keys, and the keys without which it means nothing."""

    make: type[Any]
    operand: _Word | None
    keys: dict[str, _Word]
    needs: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()


_JOB = _Word("job", _TEXT)
_QUEUE = _Word("queue", _TEXT)
_NODES = _Word("nodes", _HOSTS)
_FORMS: dict[str, _Form] = {
    "quota": _Form(
        SetQuota, _QUEUE,
        {
            "gpus": _Word("gpus", _FIGURE), "nominal": _Word("nominal", _FIGURE), "limit": _Word("limit", _FIGURE),
            "borrow": _Word("borrow", _FIGURE), "lend": _Word("lend", _FIGURE), "weight": _Word("weight", _FINITE),
            "max_run": _Word("max_run_s", _DURATION), "model": _Word("model", _TEXT),
            "resource": _Word("resource", _TEXT),
        },
        one_of=("gpus", "nominal", "limit", "borrow", "lend", "weight", "max_run"),
    ),
    "reserve": _Form(
        Reserve, _Word("name", _TEXT),
        {
            "gpus": _Word("gpus", _FINITE), "nodes": _NODES, "model": _Word("model", _TEXT),
            "start": _Word("start", _MOMENT), "end": _Word("end", _MOMENT), "users": _Word("users", _NAMES),
            "accounts": _Word("accounts", _NAMES), "flags": _Word("flags", _NAMES),
        },
        needs=("start", "end"), one_of=("gpus", "nodes"),
    ),
    "unreserve": _Form(Unreserve, _Word("name", _TEXT), {}),
    "hold": _Form(Hold, _JOB, {}),
    "release": _Form(Release, _JOB, {}),
    "cancel": _Form(Cancel, _JOB, {}),
    "requeue": _Form(Requeue, _JOB, {}),
    "priority": _Form(SetPriority, _JOB, {"value": _Word("value", _FINITE)}, needs=("value",)),
    "drain": _Form(Drain, _NODES, {"reason": _Word("reason", _TEXT)}, needs=("reason",)),
    "resume": _Form(Resume, _NODES, {}),
    "stop": _Form(StopQueue, _QUEUE, {}),
    "start": _Form(StartQueue, _QUEUE, {}),
    "submit": _Form(
        Submit, None,
        {
            "gpus": _Word("gpus", _FINITE), "nodes": _Word("nodes", _COUNT), "model": _Word("model", _TEXT),
            "hours": _Word("run_s", _HOURS), "queue": _QUEUE, "user": _Word("user", _TEXT),
            "count": _Word("count", _COUNT), "like": _Word("like", _TEXT),
        },
        one_of=("gpus", "like", "nodes"),
    ),
    "reshape": _Form(
        Reshape, _JOB,
        {
            "gpus": _Word("gpus", _FINITE), "nodes": _Word("nodes", _COUNT), "model": _Word("model", _TEXT),
            "limit": _Word("limit_s", _DURATION), "queue": _QUEUE,
        },
        one_of=("gpus", "nodes", "model", "limit", "queue"),
    ),
    "add": _Form(
        AddNodes, None,
        {"nodes": _Word("nodes", _COUNT), "gpus": _Word("gpus", _FINITE), "model": _Word("model", _TEXT)},
        needs=("nodes", "gpus"),
    ),
    "remove": _Form(RemoveNodes, _NODES, {}),
    "policy": _Form(UsePolicy, _Word("name", _TEXT), {}),
}  # fmt: skip
VERBS = tuple(_FORMS)


def read(words: Sequence[str], *, now: datetime) -> list[Change | Supposition]:
    """Read changes and suppositions from the words of a call.

    A word with blanks in it that begins with a verb is a whole text of its own (`"quota qos:nlp gpus=48"`), unless it
    stands where a verb's operand does. Several changes in one text are parted by `;`, and in a run of plain words each
    verb that is not an operand begins a new change. `now` carries the zone that times without one are in. Raises
    BadWords.
    """
    groups = list(_groups([(word, False) for word in words], texts=True))
    if not groups:
        raise BadWords("no change was named", hint="for example: quota qos:nlp gpus=48; verbs: " + ", ".join(VERBS))
    return [_read_group(group, now) for group in groups]


def read_one(text: str, *, now: datetime) -> Change | Supposition:
    """Read exactly one change or supposition from a text; BadWords if there is another number of them."""
    items = read([text] if _starts_with_verb(text) else text.split(), now=now)
    if len(items) != 1:
        raise BadWords(f"one change was expected, {len(items)} were written", text=text)
    return items[0]


def write(item: Change | Supposition) -> str:
    """Return the change as a text that `read` understands, times in UTC."""
    name = verb(item)
    form = _FORMS[name]
    words = [name]
    if form.operand:
        words.append(shlex.quote(form.operand.kind.write(getattr(item, form.operand.field))))
    for key, word in form.keys.items():
        value = getattr(item, word.field)
        default = next(f.default for f in msgspec.structs.fields(form.make) if f.name == word.field)
        if value is None or value in (default, ()):
            continue
        words.append(shlex.quote(f"{key}={word.kind.write(value)}"))
    return " ".join(words)


def write_all(items: Iterable[Change | Supposition]) -> str:
    """Return several changes as one text."""
    return "; ".join(write(item) for item in items)


def only_changes(items: Sequence[Change | Supposition]) -> list[Change]:
    """Return the changes; BadWords if a supposition is among them, since that can't be carried out."""
    changes: list[Change] = []
    for item in items:
        if not isinstance(item, CHANGE_TYPES):
            raise BadWords(
                f"`{verb(item)}` is a supposition and can't be carried out",
                text=write(item),
                hint="use it with whatif",
            )
        changes.append(item)  # type: ignore[arg-type]  # mypy does not narrow by a tuple of types
    return changes


def _starts_with_verb(text: str) -> bool:
    head = text.replace(";", " ").split(maxsplit=1)
    return bool(head) and head[0] in _FORMS


def _is_text(word: str) -> bool:
    return any(sign.isspace() or sign == ";" for sign in word) and _starts_with_verb(word)


def _groups(words: Sequence[tuple[str, bool]], *, texts: bool) -> Iterator[list[str]]:
    """Yield the words of one change after the other; each word comes with whether it was quoted in a text."""
    group: list[str] = []
    wants_operand = False
    for word, quoted in words:
        if word == ";" and not quoted:
            yield from [group] if group else []
            group, wants_operand = [], False
        elif not wants_operand and texts and _is_text(word):
            yield from [group] if group else []
            yield from _groups(_split(word), texts=False)
            group = []
        elif not wants_operand and word in _FORMS and not quoted:
            yield from [group] if group else []
            group, wants_operand = [word], _FORMS[word].operand is not None
        elif not group:
            raise BadWords(f"{word!r} is not a change", text=word, position=0, hint="verbs: " + ", ".join(VERBS))
        else:
            group.append(word)
            wants_operand = False
    if group:
        yield group


def _split(text: str) -> list[tuple[str, bool]]:
    """Return the words of a text as a POSIX shell parts them, each with whether a part of it was quoted.

    `;` outside of quotes is a word of its own. Unlike shlex, this tells a quoted `;` from a bare one.
    """
    words: list[tuple[str, bool]] = []
    word, quoted, quote, opened, at = "", False, "", 0, 0
    while at < len(text):
        sign = text[at]
        if sign == "\\" and quote != "'" and (not quote or text[at + 1 : at + 2] in {"\\", '"'}):
            word, quoted, at = word + text[at + 1 : at + 2], True, at + 1
        elif quote:
            quote, word = ("", word) if sign == quote else (quote, word + sign)
        elif sign in {"'", '"'}:
            quote, quoted, opened = sign, True, at
        elif sign.isspace() or sign == ";":
            words += [(word, quoted)] if word or quoted else []
            words += [(";", False)] if sign == ";" else []
            word, quoted = "", False
        else:
            word += sign
        at += 1
    if quote:
        raise BadWords(f"a quote is not closed in {text!r}", text=text, position=opened)
    return [*words, (word, quoted)] if word or quoted else words


def _read_group(words: Sequence[str], now: datetime) -> Change | Supposition:
    name, rest = words[0], list(words[1:])
    form = _FORMS[name]
    values: dict[str, Any] = {}
    given: dict[str, str] = {}
    if form.operand:
        if not rest:
            raise BadWords(f"`{name}` needs its {form.operand.field}", text=" ".join(words), hint=_usage(name))
        values[form.operand.field] = _value(name, form.operand.field, form.operand, rest.pop(0), now)
    for word in rest:
        key, equals, value = word.partition("=")
        if not equals or key not in form.keys:
            raise BadWords(f"`{name}` does not know {word!r}", text=" ".join(words), hint=_usage(name))
        if key in given:
            raise BadWords(f"`{name}` names {key}= twice", text=" ".join(words))
        given[key] = value
    for key in sorted(given, key=lambda key: key == "end"):
        # `end=08:00` is the first such time after the start, wherever it stands; `now` is now everywhere
        after = key == "end" and "start" in values and not given[key].strip().startswith("now")
        at = values["start"].astimezone(now.tzinfo) if after else now
        values[form.keys[key].field] = _value(name, f"{key}=", form.keys[key], given[key], at)
    for key in form.needs:
        if key not in given:
            raise BadWords(f"`{name}` needs {key}=", text=" ".join(words), hint=_usage(name))
    if form.one_of and not given.keys() & set(form.one_of):
        wanted = ", ".join(f"{key}=" for key in form.one_of)
        raise BadWords(f"`{name}` needs one of {wanted}", text=" ".join(words), hint=_usage(name))
    return _make(name, form, values, words)


def _make(name: str, form: _Form, values: dict[str, Any], words: Sequence[str]) -> Change | Supposition:
    if name == "reserve":
        if values["end"] <= values["start"]:
            raise BadWords("the reservation ends before it starts", text=" ".join(words))
        if "gpus" in values and "nodes" in values:
            raise BadWords("`reserve` takes gpus= or nodes=, not both", text=" ".join(words))
    item: Change | Supposition = form.make(**values)
    return item


def _value(name: str, label: str, word: _Word, text: str, now: datetime) -> Any:
    try:
        return word.kind.read(text, _Now(now))
    except NotationError as error:
        raise BadWords(f"`{name}`: {label} {error}", text=text, position=error.position, hint=_usage(name)) from error


def _usage(name: str) -> str:
    form = _FORMS[name]
    operand = f" {form.operand.field.upper()}" if form.operand else ""
    return f"{name}{operand} " + " ".join(f"{key}=" for key in form.keys)
