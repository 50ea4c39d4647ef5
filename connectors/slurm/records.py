"""Records of `Key=Value` words as scontrol prints them, and tables with a header as sacctmgr and sshare print them."""

from collections.abc import Iterator


def record(line: str) -> dict[str, str]:
    """Return the words of one record by key; the first of a key wins, so free text at the end can't change a field."""
    found: dict[str, str] = {}
    for word in line.split():
        key, sign, value = word.partition("=")
        if sign and key not in found:
            found[key] = value
    return found


def records(text: str, first: str) -> Iterator[dict[str, str]]:
    """Yield the records of a one-line listing (`scontrol -o`); a line that doesn't begin with `first=` is none."""
    for line in text.splitlines():
        if line.startswith(f"{first}="):
            yield record(line)


def header_table(text: str) -> list[dict[str, str]]:
    """Return the rows of a table with `|` and a header; empty if there is no header.

    Names of accounts, users and QOS can't hold `|`; a row of another width is left out by zip's strictness and raises
    ValueError, which the caller makes a gap.
    """
    lines = text.splitlines()
    if not lines:
        return []
    header = lines[0].split("|")
    return [dict(zip(header, line.split("|"), strict=True)) for line in lines[1:] if line]


def listed(text: str | None) -> tuple[str, ...]:
    """Return the items of a comma list; none for Slurm's words for nothing."""
    if text is None or text in {"", "(null)", "N/A", "None", "NONE"}:
        return ()
    return tuple(item for item in text.split(",") if item)
