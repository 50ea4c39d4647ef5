"""The words that are marked for translation, found by syntax: how `make translations` and its test read the sources.

Babel's own reader goes by tokens, so whether it sees a word inside an f-string depends on the version of Python.
"""

import ast
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO


def extract(
    file: BinaryIO, keywords: Collection[str], tags: Collection[str], options: dict[str, Any]
) -> Iterator[tuple[int, str, tuple[str, ...], list[str]]]:
    """Yield (line, function, words, comments) for each call of a keyword with words written out, as Babel asks."""
    for node in ast.walk(ast.parse(file.read())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in keywords:
            continue
        words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if words:
            yield node.lineno, node.func.id, tuple(words), []
