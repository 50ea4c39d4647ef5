"""Both catalogues are complete: every marked word has a Chinese form with the same placeholders, and is compiled."""

import io
import re
from pathlib import Path

import pytest
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from connectors import text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "console/locale/zh_CN/LC_MESSAGES"
PLACEHOLDER = re.compile(r"\{[^}]*\}")


def marked():
    found = set()
    for package in ("console", "connectors"):
        for _file, _line, message, _comments, _context in extract_from_dir(
            str(ROOT / package), keywords={"_": None, "plural": (1, 2)}
        ):
            found.add(message if isinstance(message, tuple) else (message,))
    return found


@pytest.fixture(scope="module")
def catalogue():
    with (FOLDER / "gpudeck.po").open("rb") as file:
        return read_po(file, locale="zh_CN", domain="gpudeck")


def test_every_marked_word_is_translated(catalogue):
    missing = []
    for message in marked():
        entry = catalogue.get(message[0])
        forms = (
            entry.string if entry is not None and isinstance(entry.string, tuple) else (entry.string if entry else "",)
        )
        if entry is None or entry.fuzzy or not all(forms):
            missing.append(message[0])
    assert not missing


def test_nothing_is_left_over(catalogue):
    alive = {message[0] for message in marked()}
    ids = [entry.id[0] if isinstance(entry.id, tuple) else entry.id for entry in catalogue if entry.id]
    assert [name for name in ids if name not in alive] == []


def test_placeholders_are_kept(catalogue):
    for entry in catalogue:
        if not entry.id:
            continue
        ids = entry.id if isinstance(entry.id, tuple) else (entry.id,)
        forms = entry.string if isinstance(entry.string, tuple) else (entry.string,)
        wanted = set(PLACEHOLDER.findall(ids[-1]))
        for form in forms:
            assert set(PLACEHOLDER.findall(form)) == wanted, ids[0]


def test_the_compiled_catalogue_is_that_of_the_text(catalogue):
    compiled = io.BytesIO()
    write_mo(compiled, catalogue)
    assert (FOLDER / "gpudeck.mo").read_bytes() == compiled.getvalue()


def test_a_language_is_chosen_at_run_time():
    try:
        text.use_language("zh_CN")
        assert text._("yes") == "是"
        text.use_language("en")
        assert text._("yes") == "yes"
    finally:
        text.use_language("en")
