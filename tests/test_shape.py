"""The shape of the code: sizes, layers and start-up, held by tests."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted([*ROOT.glob("console/**/*.py"), *ROOT.glob("connectors/**/*.py")])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes(path):
    text = path.read_text()
    assert text.count("\n") <= 600
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{node.name} is too long"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_error_is_swallowed_without_a_word(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler) and all(isinstance(s, ast.Pass | ast.Continue) for s in node.body):
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
            )
            assert not broad, f"line {node.lineno}"


def modules_after(code):
    answer = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return {name.partition(".")[0] for name in answer.stdout.split()}


def test_the_command_line_never_imports_textual():
    code = "from console.__main__ import main; main(['get', 'jobs', '-c', 'demo:lab48', '--json'])"
    assert "textual" not in modules_after(code)


def test_the_messages_are_light():
    assert not modules_after("import console.messages, console.start, console.link, console.wire") & {
        "polars", "asyncssh", "httpx", "typer", "numpy", "plotext", "numba", "textual",
    }  # fmt: skip
