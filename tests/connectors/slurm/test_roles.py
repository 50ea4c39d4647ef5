"""What each role may change, held against the recorded refusals."""

import pytest

from connectors.language import VERBS
from connectors.slurm.roles import verbs, writable


@pytest.mark.parametrize(
    ("queue", "level", "accounts", "figures"),
    [
        ("qos:train", "Administrator", (), ("limit", "max_run_s")),
        ("partition:low", "Administrator", (), ("weight", "max_run_s", "state")),
        ("account:vision", "Administrator", (), ("limit", "weight", "max_run_s")),
        ("qos:train", "Operator", (), ()),
        ("partition:low", "Operator", (), ()),
        ("account:vision", "Operator", (), ("limit", "weight", "max_run_s")),
        ("assoc:vision/tomas", "Operator", (), ("limit", "weight", "max_run_s")),
        ("account:vision", "None", ("vision",), ()),
        ("assoc:vision/tomas", "None", ("vision",), ("limit", "weight", "max_run_s")),
        ("assoc:language/anouk", "None", ("vision",), ()),
        ("assoc:vision/tomas", "None", (), ()),
        ("qos:train", None, (), ("limit", "max_run_s")),
        ("cq:team-a", "Administrator", (), ()),
    ],
)
def test_the_figures_of_a_queue(queue, level, accounts, figures) -> None:
    assert writable(queue, level, accounts) == figures


def test_the_verbs() -> None:
    assert set(verbs("Administrator")) == set(verbs(None)) < set(VERBS)
    assert set(verbs("Administrator")) - set(verbs("Operator")) == {"drain", "resume", "stop", "start"}
    assert "priority" not in verbs("None", ("vision",))
    assert set(verbs("None", ("vision",))) - set(verbs("None")) == {"quota"}
    assert verbs("None") == ("hold", "release", "cancel", "requeue")
