"""Raw answers on disk: what `capture` writes and `--captured` reads. The same for every connector.

A folder holds `manifest.json` (what was asked, codes, times, notes) and, for each answer, its bytes as they came:
`NAME.out` and, if there is any, `NAME.err`. Files are made new, for their owner alone; a folder that already holds a
capture is refused.
"""

import os
import re
from datetime import datetime
from pathlib import Path

import msgspec

from connectors.connector import Answer, Raw
from connectors.errors import BadWords, NotFound

MANIFEST = "manifest.json"
FORMAT = "gpudeck/capture/1"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,120}")


class _AnswerEntry(msgspec.Struct, kw_only=True):
    file: str
    asked: str
    code: int
    took_ms: float | None = None


class _Manifest(msgspec.Struct, kw_only=True):
    format: str
    system: str
    cluster: str
    taken_at: datetime
    took_ms: float | None = None
    answers: dict[str, _AnswerEntry] = {}
    notes: dict[str, str] = {}


def save_raw(raw: Raw, folder: Path) -> list[Path]:
    """Write the answers into a folder, made if missing; return the files. BadWords if it holds a capture already."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        raise BadWords(f"{folder} holds a capture already", text=str(folder), hint="name another folder")
    written: list[Path] = []
    entries: dict[str, _AnswerEntry] = {}
    for number, (name, answer) in enumerate(raw.answers.items()):
        # names such as routes can't be file names; the manifest says which file is whose
        stem = name if _NAME.fullmatch(name) else f"answer-{number}"
        entries[name] = _AnswerEntry(file=stem, asked=answer.asked, code=answer.code, took_ms=answer.took_ms)
        written.append(_write(folder / f"{stem}.out", answer.out))
        if answer.err:
            written.append(_write(folder / f"{stem}.err", answer.err))
    manifest = _Manifest(
        format=FORMAT, system=raw.system, cluster=raw.cluster, taken_at=raw.taken_at, took_ms=raw.took_ms,
        answers=entries, notes=raw.notes,
    )  # fmt: skip
    # last, so that a folder without one is no capture
    written.append(_write(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"))
    return written


def load_raw(folder: Path) -> Raw:
    """Return the answers of a captured folder. NotFound if there is none, BadWords if it can't be read."""
    try:
        text = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        raise NotFound("capture", str(folder), hint=f"a captured folder holds {MANIFEST}") from None
    except OSError as error:
        raise BadWords(f"capture {folder}: {error.strerror}", text=str(folder)) from error
    try:
        manifest = msgspec.json.decode(text, type=_Manifest)
        answers = {name: _read(folder, entry) for name, entry in manifest.answers.items()}
    except (msgspec.MsgspecError, OSError, ValueError) as error:
        raise BadWords(f"capture {folder}: {error}", text=str(folder)) from error
    if manifest.format != FORMAT:
        raise BadWords(f"capture {folder}: format {manifest.format!r} is not {FORMAT}", text=str(folder))
    return Raw(
        system=manifest.system, cluster=manifest.cluster, taken_at=manifest.taken_at, took_ms=manifest.took_ms,
        answers=answers, notes=manifest.notes,
    )  # fmt: skip


def _write(path: Path, content: bytes) -> Path:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return path


def _read(folder: Path, entry: _AnswerEntry) -> Answer:
    if not _NAME.fullmatch(entry.file):
        raise ValueError(f"{entry.file!r} is no name of a file of a capture")
    err = folder / f"{entry.file}.err"
    return Answer(
        asked=entry.asked,
        code=entry.code,
        out=(folder / f"{entry.file}.out").read_bytes(),
        err=err.read_bytes() if err.is_file() else b"",
        took_ms=entry.took_ms,
    )
