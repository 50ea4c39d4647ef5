"""The catalogue is complete: every marked word has a Chinese form with the same placeholders, and is compiled."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po

from connectors import text
from connectors.notation import cells

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "console/locale/gpudeck.pot"
FOLDER = ROOT / "console/locale/zh_CN/LC_MESSAGES"
KEYWORDS = {"_": None, "N_": None, "plural": (1, 2)}
PLACEHOLDER = re.compile(r"\{[^}]*\}")
# What the console offers for typing is found behind ": " (`console.ui.explain.suggestion`).
STEP = re.compile(r": (\{command\}|resume \{nodes\}|unreserve \{name\})")


@cache
def marked():
    found = set()
    for package in ("console", "connectors"):
        for _file, _line, message, _comments, _context in extract_from_dir(
            str(ROOT / package), method_map=[("**.py", "marked_words:extract")], keywords=KEYWORDS
        ):
            found.add(message if isinstance(message, tuple) else (message,))
    return found


def forms(value):
    return (value,) if isinstance(value, str) else tuple(value)


@pytest.fixture(scope="module")
def catalogue():
    with (FOLDER / "gpudeck.po").open("rb") as file:
        return read_po(file, locale="zh_CN", domain="gpudeck")


def test_every_marked_word_is_translated(catalogue):
    missing = []
    for message in marked():
        entry = catalogue.get(message[0])
        if entry is None or entry.fuzzy or forms(entry.id) != message or not all(forms(entry.string)):
            missing.append(message[0])
    assert not missing, "make translations, then fill in"


def test_nothing_is_left_over(catalogue):
    alive = {message[0] for message in marked()}
    assert [forms(entry.id)[0] for entry in catalogue if entry.id and forms(entry.id)[0] not in alive] == []
    assert not catalogue.obsolete


def test_the_template_is_that_of_the_sources():
    with TEMPLATE.open("rb") as file:
        assert {forms(entry.id) for entry in read_po(file) if entry.id} == marked()


def test_placeholders_are_kept(catalogue):
    for entry in catalogue:
        if not entry.id:
            continue
        wanted = sorted(PLACEHOLDER.findall(forms(entry.id)[-1]))
        for form in forms(entry.string):
            assert sorted(PLACEHOLDER.findall(form)) == wanted, entry.id


def test_a_command_stands_where_the_console_finds_it(catalogue):
    for entry in catalogue:
        for found in STEP.findall(forms(entry.id)[0]):
            assert f": {found}" in forms(entry.string)[0], entry.id


def test_the_compiled_catalogue_is_that_of_the_text(catalogue):
    with (FOLDER / "gpudeck.mo").open("rb") as file:
        compiled = read_mo(file)
    written = {forms(entry.id): forms(entry.string) for entry in catalogue if entry.id}
    assert {forms(entry.id): forms(entry.string) for entry in compiled if entry.id} == written


@pytest.mark.parametrize("module", ["jobs", "screens.fleet", "screens.nodes", "screens.quotas", "screens.changes"])
def test_titles_fit_their_columns(module):
    from console.ui.widgets.table import Column

    shown = vars(import_module(f"console.ui.{module}")).values()
    columns = [one for value in shown if isinstance(value, tuple) for one in value if isinstance(one, Column)]
    assert columns
    try:
        text.use_language("zh_CN")
        assert [(one.key, one.title()) for one in columns if cells(one.title()) > one.width] == []
    finally:
        text.use_language("en")


def test_a_language_is_chosen_at_run_time():
    try:
        text.use_language("zh_CN")
        assert text._("yes") == "是"
        assert text.plural("{count} job", "{count} jobs", 1).format(count=1) == "1 个作业"
        text.use_language("en")
        assert text._("yes") == "yes"
    finally:
        text.use_language("en")
