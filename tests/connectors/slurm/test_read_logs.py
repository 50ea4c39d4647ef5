"""Where a job's output is: never where somebody else's text says."""

from __future__ import annotations

import pytest

from connectors.slurm.logs import output_path

SHOWN = "JobId=7 JobName=x\n   Command=/bin/x\n   StdOut=/home/u/logs/7.out\n   Power=\n"


@pytest.mark.parametrize(
    ("pattern", "shown", "want"),
    [
        ("/home/u/logs/%j.out", SHOWN, "/home/u/logs/7.out"),
        ("/home/u/logs/7.out", "", "/home/u/logs/7.out"),
        ("/home/u/logs/%4j-%x.out", SHOWN.replace("7.out", "0007-a b.out"), "/home/u/logs/0007-a b.out"),
        ("/home/u/logs/%j.out", "JobName=x\n   StdOut=/etc/shadow\n" + SHOWN, "/home/u/logs/7.out"),
        ("/home/u/a.out", "JobName=x\n   StdOut=/etc/shadow\n", "/home/u/a.out"),
        ("/home/u/logs/%j.out", "", None),
        ("/dev/null", SHOWN, None),
        ("", SHOWN, None),
        ("relative.out", SHOWN, None),
    ],
)
def test_the_path_of_the_output(pattern: str, shown: str, want: str | None) -> None:
    assert output_path(pattern, shown) == want
