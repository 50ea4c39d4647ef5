"""The one filter grammar: `state:pending gpus>8 wait_s>2h !name:test`, on the command line and behind `/`.

    term    = ["!"] (word | field op value)        terms are separated by blanks, all must hold
    op      = ":" | ">" | ">=" | "<" | "<="
    value   = anything without blanks, or "..." with \\" and \\\\ inside (then `*` is a plain star)

A word matches names (and ids), anywhere in them. `:` compares text as a whole, without case, and `*` stands for
anything; in columns of free text (names, reasons, messages) it matches a part. A list matches by any of its elements.
Columns in `_s` take durations (`2h`), in `_bytes` memory (`64G`), in `_ratio` also `90%`; times are `20:00` (today),
`2026-12-01`, `2026-12-01T20:00`, `now-2h`. Null never matches, negated or not; only `field:null` finds it.
"""

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from connectors import zone
from connectors.errors import BadWords
from connectors.notation import NotationError, parse_human_duration, parse_memory, parse_when
from connectors.text import _

if TYPE_CHECKING:  # polars loads when a filter is applied, not when it is typed (design.md, "Imports are lazy")
    import polars as pl

DERIVED_COLUMNS = (
    "wait_s", "run_s", "gpu_h", "cost_per_hour", "verdict", "why", "start_p50", "start_p90", "idle_s",
)  # fmt: skip
_OPS = (">=", "<=", ":", ">", "<")
_FIELD = re.compile(r"[a-z][a-z0-9_]*", re.IGNORECASE)
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&\-~/]")
_LONGEST = 1000
_FREE_TEXT = frozenset({
    "name", "reason", "reason_raw", "why", "message", "constraint", "dependency", "preemption", "price_basis",
})  # fmt: skip
_NAMES = ("name", "id")
_NAMES_ELSE = ("node", "uuid", "queue", "object", "message", "model", "job_key")
_TRUE, _FALSE = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
_BYTE = re.compile(r"(?i)(?<=[kmgtpe])i?b\Z")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; `field` None is a word. `position` and `value_position` count characters of the filter's text."""

    field: str | None
    op: str
    value: str
    quoted: bool
    negated: bool
    position: int
    value_position: int


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter; `now` is what relative times are read against."""

    text: str
    terms: tuple[Term, ...]
    now: datetime

    def apply(self, frame: "pl.DataFrame") -> "pl.DataFrame":
        """Return the rows that match. BadWords for a field that this table does not have, or a value it can't hold."""
        return frame.filter(*(_expression(self, term, frame) for term in self.terms)) if self.terms else frame


def parse_filter(text: str, now: datetime | None = None) -> Filter:
    """Return the filter. BadWords, with the position, for anything that can't be read.

    A field must be one of model.md, the derived ones too; a connector's own columns, and all values, are checked
    against the table that the filter is applied to.
    """
    moment = zone.now() if now is None else now
    terms: list[Term] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        term, at = _term(text, at)
        terms.append(term)
    return Filter(text=text, terms=tuple(terms), now=moment)


def sort(frame: "pl.DataFrame", keys: str) -> "pl.DataFrame":
    """Return the rows sorted by columns, `-wait_s,name`: `-` is descending; null comes last. BadWords."""
    import polars as pl

    columns, descending = [], []
    for key, position in _listed(keys):
        name = key.removeprefix("-")
        column = _column(frame.columns, name, keys, position)
        if frame.schema[column].is_nested():
            what = _("can't sort by {column}: it is a list").format(column=column)
            raise BadWords(what, text=keys, position=position)
        columns.append(column)
        descending.append(key.startswith("-"))
    by = [pl.col(name).cast(pl.String) if frame.schema[name] == pl.Enum else pl.col(name) for name in columns]
    return frame.sort(by, descending=descending, nulls_last=True, maintain_order=True)


def pick_columns(frame: "pl.DataFrame", names: str) -> "pl.DataFrame":
    """Return these columns, in this order: `id,name,wait_s`. BadWords names those that come near."""
    picked = [_column(frame.columns, name, names, position) for name, position in _listed(names)]
    return frame.select(list(dict.fromkeys(picked)))


def _listed(text: str) -> list[tuple[str, int]]:
    found, at = [], 0
    for part in text.split(","):
        word = part.strip()
        if not word.removeprefix("-"):
            raise BadWords(_("a column is missing"), text=text, position=at)
        found.append((word, at + len(part) - len(part.lstrip())))
        at += len(part) + 1
    return found


def _column(columns: Sequence[str], name: str, text: str, position: int) -> str:
    lowered = name.lower()
    for column in columns:
        if column.lower() == lowered:
            return column
    near = _near(lowered, columns)
    hint = _("did you mean {names}?").format(names=", ".join(near)) if near else None
    raise BadWords(_("no column {name!r} here").format(name=name), text=text, position=position, hint=hint)


def _near(name: str, columns: Iterable[str]) -> list[str]:
    listed = list(columns)
    starts = [one for one in listed if one.startswith(name) or name.startswith(one)]
    close = difflib.get_close_matches(name[:80], listed, n=3, cutoff=0.5)
    return list(dict.fromkeys([*close, *starts]))[:4]


def _term(text: str, start: int) -> tuple[Term, int]:
    at = start
    negated = text[at] == "!"
    at += negated
    if at >= len(text) or text[at].isspace() or text[at] == "!":
        raise BadWords(_("`!` needs a condition right behind it"), text=text, position=start)
    if text[at] == '"':
        value, end = _quoted(text, at)
        _end_of_term(text, end)
        return Term(None, ":", value, quoted=True, negated=negated, position=start, value_position=at), end
    end = at
    while end < len(text) and not text[end].isspace() and text[end] not in ':<>"':
        end += 1
    if end < len(text) and text[end] == '"':
        raise BadWords(_("a quote stands in the middle of a word"), text=text, position=end)
    if end >= len(text) or text[end].isspace():
        return Term(None, ":", text[at:end], quoted=False, negated=negated, position=start, value_position=at), end
    field = text[at:end]
    _check_field(field, text, at)
    op = next(one for one in _OPS if text.startswith(one, end))
    value_at = end + len(op)
    if value_at < len(text) and text[value_at] == '"':
        value, end = _quoted(text, value_at)
        _end_of_term(text, end)
        return Term(field.lower(), op, value, quoted=True, negated=negated, position=at, value_position=value_at), end
    end = value_at
    while end < len(text) and not text[end].isspace():
        end += 1
    if end == value_at:
        what = _("a value is missing after {field}{op}").format(field=field, op=op)
        raise BadWords(what, text=text, position=value_at)
    value = text[value_at:end]
    return Term(field.lower(), op, value, quoted=False, negated=negated, position=at, value_position=value_at), end


def _check_field(field: str, text: str, at: int) -> None:
    """Refuse a field that no table has; a connector's own column (`slurm_qos`) is only known to its table."""
    known = _known_fields()
    name = field.lower()
    if name in known:
        return
    near = _near(name, known)
    own = _FIELD.fullmatch(field) and "_" in name and not difflib.get_close_matches(name[:80], known, n=1, cutoff=0.8)
    if not own:
        meant = _("did you mean {names}?").format(names=", ".join(near)) if near else None
        hint = meant or _("quote it to look for it in names")
        raise BadWords(_("{field!r} is not a field").format(field=field), text=text, position=at, hint=hint)


@lru_cache(maxsize=1)
def _known_fields() -> tuple[str, ...]:
    from connectors.model import SCHEMAS

    return tuple(dict.fromkeys([*(name for schema in SCHEMAS.values() for name in schema), *DERIVED_COLUMNS]))


def _quoted(text: str, start: int) -> tuple[str, int]:
    parts, at = [], start + 1
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in '"\\':
            parts.append(text[at + 1])
            at += 2
        elif text[at] == '"':
            return "".join(parts), at + 1
        else:
            parts.append(text[at])
            at += 1
    raise BadWords(_("a quote is not closed"), text=text, position=start)


def _end_of_term(text: str, at: int) -> None:
    if at < len(text) and not text[at].isspace():
        raise BadWords(_("a blank is missing after the quote"), text=text, position=at)


def _expression(whole: Filter, term: Term, frame: "pl.DataFrame") -> "pl.Expr":
    import polars as pl

    _check_text(whole, term)
    if term.field is None:
        columns = [name for name in _NAMES if name in frame.columns]
        columns = columns or [name for name in _NAMES_ELSE if name in frame.columns]
        if not columns:
            raise BadWords(_("this table has no names to look in"), text=whole.text, position=term.position)
        found = pl.any_horizontal(*(_text_match(pl.col(name).cast(pl.String), term, part=True) for name in columns))
        return ~found if term.negated else found
    column = _column(frame.columns, term.field, whole.text, term.position)
    if term.op == ":" and term.value.lower() == "null" and not term.quoted:
        return pl.col(column).is_not_null() if term.negated else pl.col(column).is_null()
    found = _compare(whole, term, column, frame.schema[column])
    return ~found if term.negated else found


def _check_text(whole: Filter, term: Term) -> None:
    if len(term.value) > _LONGEST:
        raise _bad(whole, term, _("a value of more than {count} characters").format(count=_LONGEST))
    try:
        term.value.encode()
    except UnicodeEncodeError:
        raise _bad(whole, term, _("a value that is not text")) from None


def _compare(whole: Filter, term: Term, column: str, dtype: Any) -> "pl.Expr":
    import polars as pl

    value = pl.col(column)
    if isinstance(dtype, pl.List):
        return _list_match(whole, term, column, dtype)
    if dtype == pl.Boolean:
        return value == _boolean(whole, term)
    if isinstance(dtype, pl.Datetime):
        return _time_match(whole, term, value)
    if dtype.is_numeric():
        return _ordered(value.cast(pl.Float64), term.op, _number(whole, term, column))
    if dtype.is_nested():
        raise _bad(whole, term, _("{column} can't be filtered").format(column=column))
    if term.op != ":":
        raise _bad(whole, term, _("{column} is text: only `{column}:value` can be asked").format(column=column))
    if isinstance(dtype, pl.Enum):
        words = dtype.categories.to_list()
        if ("*" not in term.value or term.quoted) and term.value.lower() not in words:
            near = ", ".join(_near(term.value.lower(), words) or words)
            raise _bad(whole, term, _("{column} is never {value!r}").format(column=column, value=term.value), near)
    return _text_match(value.cast(pl.String), term, part=column in _FREE_TEXT)


def _bad(whole: Filter, term: Term, what: str, hint: str | None = None) -> BadWords:
    return BadWords(what, text=whole.text, position=term.value_position, hint=hint)


def _text_match(value: "pl.Expr", term: Term, *, part: bool) -> "pl.Expr":
    import polars as pl

    # lowered as the column is: polars and Python know different editions of Unicode
    wanted = str(pl.Series([term.value]).str.to_lowercase()[0])
    if "*" in wanted and not term.quoted:
        # built from escaped pieces: nothing that was typed reaches the pattern as a pattern
        pattern = ".*".join(_SPECIAL.sub(r"\\\g<0>", piece) for piece in wanted.split("*"))
        return value.str.contains(rf"(?is)\A{pattern}\z")
    lowered = value.str.to_lowercase()
    if part:
        return lowered.str.contains(wanted, literal=True)
    return lowered == wanted


def _list_match(whole: Filter, term: Term, column: str, dtype: Any) -> "pl.Expr":
    import polars as pl

    if term.op != ":":
        raise _bad(whole, term, _("{column} is a list: only `{column}:value` can be asked").format(column=column))
    element, inner = pl.element(), dtype.inner
    if isinstance(inner, pl.Struct):
        names = {one.name for one in inner.fields}
        if names != {"key", "value"}:
            raise _bad(whole, term, _("{column} can't be filtered").format(column=column))
        key, held = element.struct.field("key"), element.struct.field("value")
        found = _text_match(pl.concat_str([key, pl.lit("="), held.fill_null("")]), term, part=False)
        found = found | _text_match(key, term, part=False) | _text_match(held.fill_null(""), term, part=False)
    else:
        found = _text_match(element.cast(pl.String), term, part=False)
    return pl.col(column).list.eval(found.fill_null(value=False)).list.any()


def _boolean(whole: Filter, term: Term) -> bool:
    word = term.value.lower()
    if term.op != ":" or word not in _TRUE | _FALSE:
        raise _bad(whole, term, _("{field} is true or false").format(field=term.field))
    return word in _TRUE


def _number(whole: Filter, term: Term, column: str) -> float:
    text = term.value.strip()
    if text.lower() in {"unlimited", "infinite"}:
        return math.inf
    try:
        if (plain := _plain(text)) is not None:
            return plain
        if column.endswith("_s"):
            return parse_human_duration(text)
        if column.endswith("_bytes") and (memory := parse_memory(_BYTE.sub("", text))) is not None:
            return float(memory.size_bytes)
        if column.endswith("_ratio") and text.endswith("%") and (plain := _plain(text[:-1])) is not None:
            return plain / 100
    except NotationError as error:
        raise _bad(whole, term, str(error)) from None
    kind = _("a duration") if column.endswith("_s") else _("memory") if column.endswith("_bytes") else _("a number")
    what = _("{column} takes {kind}, not {value!r}").format(column=column, kind=kind, value=term.value)
    raise _bad(whole, term, what)


def _plain(text: str) -> float | None:
    if not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", text, re.ASCII):
        return None
    return float(text)


def _ordered(value: "pl.Expr", op: str, wanted: float | datetime) -> "pl.Expr":
    compare = {":": value.eq, ">": value.gt, ">=": value.ge, "<": value.lt, "<=": value.le}
    return compare[op](wanted)


def _time_match(whole: Filter, term: Term, value: "pl.Expr") -> "pl.Expr":
    moment, width = _moment(whole, term)
    if term.op == ":":
        return (value >= moment) & (value < moment + width)
    if term.op in {">", "<="} and width > timedelta(seconds=1):
        return _ordered(value, ">=" if term.op == ">" else "<", moment + width)
    return _ordered(value, term.op, moment)


def _moment(whole: Filter, term: Term) -> tuple[datetime, timedelta]:
    """Return the moment, and how long the time that was named lasts: a day, a minute or a second."""
    text, now = term.value.strip(), whole.now
    try:
        if text.lower().startswith("now-"):
            return now - timedelta(seconds=parse_human_duration(text[4:])), timedelta(seconds=1)
        if _DAY.fullmatch(text):
            return parse_when(f"{text}T00:00", now), timedelta(days=1)
        if clock := _CLOCK.fullmatch(text):
            today = now.strftime("%Y-%m-%d")
            width = timedelta(seconds=1) if clock[1] else timedelta(minutes=1)
            return parse_when(f"{today}T{text.zfill(8 if clock[1] else 5)}", now), width
        width = timedelta(minutes=1) if text.count(":") == 1 and not text.startswith("now") else timedelta(seconds=1)
        return parse_when(text, now), width
    except NotationError as error:
        raise _bad(whole, term, str(error)) from None
    except (OverflowError, ValueError):
        raise _bad(whole, term, _("{value!r} lies outside the calendar").format(value=term.value)) from None
