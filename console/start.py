"""Opening the console: which words of a call mean it, and how it starts. Imports stay light until the first frame."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from connectors.errors import GpudeckError
from connectors.notation import safe_text
from connectors.text import _, language_from_environment, use_language
from console import config as configuration
from console.messages import Begin

_NOT_OURS = {"--help", "--headless", "--version", "--install-completion", "--show-completion", "-h"}


class ConsoleCall(msgspec.Struct, frozen=True, kw_only=True):
    """How the console is to be opened."""

    begin: Begin
    theme: str | None = None
    ascii: bool = False
    no_color: bool = False


class _Parser(argparse.ArgumentParser):
    """Says errors in one line, like every command."""

    def error(self, message: str) -> None:  # type: ignore[override]  # argparse's own never returns either
        sys.stderr.write(f"gpudeck: {safe_text(message)}\n")
        raise SystemExit(2)


def console_call(words: Sequence[str]) -> ConsoleCall | None:
    """Return the call if these words open the console: none, options alone, or `demo`; None if they name a command."""
    if _NOT_OURS.intersection(words):
        return None
    command = _first_word(words)
    if command not in {None, "demo"}:
        return None
    given = _parser(demo=command == "demo").parse_args([word for word in words if word != command])
    clusters, settings = tuple(given.cluster or ()), {}
    if command == "demo":
        scenarios = given.scenario or configuration.DEMO_SCENARIOS
        clusters = tuple(configuration.DEMO_PREFIX + name for name in scenarios)
        settings = {key: getattr(given, key) for key in ("seed", "speed") if getattr(given, key) is not None}
    begin = Begin(
        config=given.config, clusters=clusters, captured=given.captured, write=given.write, timeout_s=given.timeout,
        settings=settings,
    )  # fmt: skip
    return ConsoleCall(begin=begin, theme=given.theme, ascii=given.ascii, no_color=given.no_color)


def _first_word(words: Sequence[str]) -> str | None:
    """Return the first word that is neither an option nor an option's value."""
    takes_value = {"-c", "--cluster", "--config", "--captured", "--timeout", "--theme"}
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in takes_value:
            skip = True
        elif not word.startswith("-"):
            return word
    return None


def _parser(*, demo: bool) -> _Parser:
    parser = _Parser(prog="gpudeck", add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--cluster", action="append")
    parser.add_argument("--config")
    parser.add_argument("--captured")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--theme")
    parser.add_argument("--ascii", action="store_true")
    parser.add_argument("--no-color", action="store_true")
    if demo:
        parser.add_argument("scenario", nargs="*", choices=[*configuration.DEMO_SCENARIOS, []])
        parser.add_argument("--seed", type=int)
        parser.add_argument("--speed", type=float)
    return parser


def open_console(call: ConsoleCall) -> int:
    """Open the console and return its exit code; what is wrong with the call or the config is one line."""
    try:
        config = configuration.load(Path(call.begin.config) if call.begin.config else None)
        language = language_from_environment() or config.language
        use_language(language)
        if not call.begin.captured:
            config.selected(call.begin.clusters)
    except GpudeckError as error:
        sys.stderr.write(f"gpudeck: {safe_text(str(error))}\n")
        return error.exit_code
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stderr.write("gpudeck: " + _("the console needs a terminal; commands work without one") + "\n")
        return 2
    if call.no_color:
        os.environ["NO_COLOR"] = "1"
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    from console.link import EngineLink
    from console.ui.app import run
    from console.wire import load_last

    begin = msgspec.structs.replace(call.begin, language=language)
    wanted = begin.clusters or tuple(cluster.name for cluster in config.clusters)
    last = tuple(status for status in load_last() if status.cluster in wanted)
    return run(
        lambda: EngineLink(begin),
        last=last,
        language=language,
        theme=call.theme or config.theme,
        ascii_only=call.ascii or config.ascii,
    )
