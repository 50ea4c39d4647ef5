"""Words for people, by gettext: the one place where a language is chosen.

Both packages mark their words with `_`, so that a screen, a command and an error speak one language. The catalogue is
looked up at call time: `use_language` may run after modules were imported.
"""

import gettext
import os
from pathlib import Path

_DOMAIN = "gpudeck"
_LOCALES = Path(__file__).resolve().parent.parent / "console" / "locale"
_current: gettext.NullTranslations = gettext.NullTranslations()


def use_language(language: str | None = None) -> None:
    """Choose the catalogue: a tag such as `zh_CN`, or None for what LANGUAGE, LC_ALL, LC_MESSAGES and LANG say.

    A language without a catalogue gives English.
    """
    global _current  # noqa: PLW0603 - one process speaks one language; a parameter everywhere would say less
    languages = [language] if language else None
    _current = gettext.translation(_DOMAIN, _LOCALES, languages=languages, fallback=True)


def _(message: str) -> str:
    """Return the message in the chosen language; placeholders `{name}` are filled after, by `str.format`."""
    return _current.gettext(message)


def plural(one: str, many: str, count: int) -> str:
    """Return the form for `count`, with `{count}` still to be filled by `str.format`."""
    return _current.ngettext(one, many, count)


def weekday(day: int) -> str:
    """Return the short name of a day of the week, Monday being 0 (`datetime.weekday`)."""
    return (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))[day]


def language_from_environment() -> str | None:
    """Return the language that GPUDECK_LANG asks for, or None: the environment's locale then decides."""
    return os.environ.get("GPUDECK_LANG") or None
