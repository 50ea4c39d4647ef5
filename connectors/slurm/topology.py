"""Where a node hangs in the network, from `scontrol -o show topology` (topology/tree and topology/block)."""

import polars as pl

from connectors.connector import Answer
from connectors.notation import NotationError, parse_hostlist
from connectors.slurm.columns import decode, gather_lists
from connectors.slurm.records import record


def domain_column(answer: Answer | None, names: list[str]) -> pl.Series:
    """Return the path of switches, or the block, of each node, outermost first; null where the site has no topology."""
    paths = _paths(decode(answer.out)) if answer is not None and answer.code == 0 else {}
    known: dict[tuple[str, ...] | None, int] = {}
    codes = [known.setdefault(paths.get(name), len(known)) for name in names]
    return gather_lists(list(known), codes, "domain")


def _paths(text: str) -> dict[str, tuple[str, ...]]:
    above: dict[str, str] = {}
    leaves: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        words = record(line)
        name = words.get("SwitchName") or words.get("BlockName")
        if name is None:
            continue
        try:
            below = parse_hostlist(words.get("Switches", ""))
            nodes = parse_hostlist(words.get("Nodes", ""))
        except NotationError:
            continue
        above.update(dict.fromkeys(below, name))
        if not below:
            leaves[name] = nodes
    return {node: _up(leaf, above) for leaf, nodes in leaves.items() for node in nodes}


def _up(leaf: str, above: dict[str, str]) -> tuple[str, ...]:
    path = [leaf]
    while (higher := above.get(path[0])) is not None and higher not in path:
        path.insert(0, higher)
    return tuple(path)
