"""State words of nodes and jobs: `IDLE+DRAIN`, `mixed-`, `CANCELLED by 1007`, `PD`.

Sources: sinfo(1) NODE STATE CODES, squeue(1) JOB STATE CODES, sacct(1) State. What a state means in this program's
model is decided by the connector; here a word that is not known stays as it is.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_MARKS = {
    "*": "NOT_RESPONDING",
    "-": "PLANNED",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN_PENDING",
    "$": "MAINTENANCE",
}
_COMPACT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
    "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED",
    "R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED",
    "RS": "RESIZING", "RV": "REVOKED", "SI": "SIGNALING", "SE": "SPECIAL_EXIT", "SO": "STAGE_OUT", "ST": "STOPPED",
    "S": "SUSPENDED", "TO": "TIMEOUT",
    "ALLOC": "ALLOCATED", "COMP": "COMPLETING", "DRNG": "DRAINING", "FAILG": "FAILING", "FUTR": "FUTURE",
    "MIX": "MIXED", "PLND": "PLANNED", "RESV": "RESERVED", "UNK": "UNKNOWN",
}  # fmt: skip
_BY = re.compile(r"(?P<word>\S+)\s+BY\s+(?P<uid>[0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class States:
    """The words of one state, in capitals; the meanings of its one-character suffixes; and who cancelled (a uid).

    `marks` may also hold `COMPLETING` (`allocated+`) and `CUT` (a column too narrow: `CANCELLED+`).
    """

    words: frozenset[str]
    marks: frozenset[str] = frozenset()
    by_uid: int | None = None


def split_states(state: str | Iterable[str]) -> States:
    """Return the words and marks of a state given as text or as a list of words; never fails.

    Compact codes (`PD`, `mix`) become the words that they stand for. A word that is not known is kept, in capitals.
    """
    if isinstance(state, str):
        return _split_text(state)
    parts = [_split_text(word) for word in state]
    return States(
        frozenset().union(*(part.words for part in parts)),
        frozenset().union(*(part.marks for part in parts)),
        next((part.by_uid for part in parts if part.by_uid is not None), None),
    )


@lru_cache(maxsize=4096)
def _split_text(text: str) -> States:
    text = text.strip().upper()
    by_uid: int | None = None
    if by := _BY.fullmatch(text):
        text, by_uid = by["word"], int(by["uid"])
    words: list[str] = []
    marks: set[str] = set()
    if text.endswith("+"):
        text = text[:-1]
        marks.add("COMPLETING" if text in {"ALLOC", "ALLOCATED"} else "CUT")
    for part in text.split("+"):
        word = part.rstrip("".join(_MARKS))
        marks.update(_MARKS[sign] for sign in part[len(word) :])
        if word:
            words.append(_COMPACT.get(word, word))
    return States(frozenset(words), frozenset(marks), by_uid)
