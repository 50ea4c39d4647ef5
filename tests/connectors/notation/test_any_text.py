"""Whatever the text, a parser returns or raises NotationError: nothing else leaves it."""

import pickle
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors import notation
from connectors.notation import NotationError

NOW = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)

PARSERS = {
    "hostlist": notation.parse_hostlist,
    "duration": notation.parse_duration,
    "human_duration": notation.parse_human_duration,
    "job_id": notation.parse_job_id,
    "task_list": notation.parse_task_list,
    "tres": notation.parse_tres,
    "limits": notation.parse_limits,
    "gres": notation.parse_gres,
    "memory": notation.parse_memory,
    "quantity": notation.parse_quantity,
    "states": notation.split_states,
    "when": lambda text: notation.parse_when(text, NOW),
    "slurm_time": notation.parse_slurm_time,
    "slurm_time_zone": lambda text: notation.parse_slurm_time(text, UTC),
}
# The pieces that the notations are made of, so that the search comes near to what is valid.
PIECES = st.sampled_from([
    *"0123456789[](),-:%+=./_*@ ", "...", "gpu", "gres/", "gres:", "IDX:", "S:", "N/A", "(null)", "mem=", "cpu=", "n", "Ki",
    "now+", "T", "Z", "e", "E", "m", "d", "h", "9" * 30, "٣", "²", "\n", "\x1b", "\ud800", "2026-12-01", "20:00", "batch",
    "18446744073709551615", "UNLIMITED", "CANCELLED by ", "nan", "inf", "1e999",
])  # fmt: skip
NEAR = st.lists(PIECES, max_size=12).map("".join)


def refusal(name, text):
    try:
        PARSERS[name](text)
    except NotationError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.one_of(st.text(max_size=40), NEAR))
@settings(max_examples=150, deadline=None)
def test_only_notation_error(name, text):
    message = refusal(name, text)
    assert message is None or (message.isprintable() and len(message) < 400)


HOSTILE = [
    "9" * 5000, "[" * 100_000, "(" * 100_000, "a[" + "1," * 50_000 + "1]", "x[1-99999999999999999]", "x" + "[0-9]" * 50,
    "1" * 19, "1_[0-" + "9" * 18 + "]", "1_[0-999999999,0-999999999]", "gpu:1(IDX:0-999999999999)", "mem=1e999", "cpu=nan",
    "cpu=inf", "cpu=" + "9" * 400, "now+" + "9" * 12 + "w", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59",
    "0000-00-00T00:00", "99999999999999999", "1e99999999", "9" * 200 + "Ei", "0e99", "1,2,3" + "0" * 100_000, "+" * 100_000,
    " " * 100_000, "1m" * 50_000, "=" * 10_000, "a=" + "," * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("name", PARSERS)
def test_hostile_texts_end_soon(name):
    for text in HOSTILE:
        start = time.perf_counter()
        message = refusal(name, text)
        assert message is None or (message.isprintable() and len(message) < 400)
        assert time.perf_counter() - start < 2, text[:30]


def test_error_says_what_and_where_and_survives_pickling():
    with pytest.raises(NotationError) as caught:
        notation.parse_hostlist("gpu[5-1]\n")
    error = caught.value
    assert (error.what, error.text, error.position) == ("host list", "gpu[5-1]\n", 0)
    assert str(error) == "not a host list: 'gpu[5-1]\\n' at character 1: the range '5-1' runs backwards"
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.text == error.text


def test_repeated_strings_cost_almost_nothing():
    tres = [f"cpu={n},mem={n}000M,node=1,billing={n},gres/gpu={n},gres/gpu:h100={n}" for n in range(1, 201)]
    hosts = [f"gpu[{n:03d}-{n + 7:03d}]" for n in range(200)]
    start = time.process_time()
    for row in range(50_000):
        notation.parse_tres(tres[row % 200])
        notation.parse_hostlist(hosts[row % 200])
    # about 0.03 s; without a memory it is seconds
    assert time.process_time() - start < 0.5


def test_importing_it_is_light():
    known = "import sys; before = set(sys.modules); import connectors.notation; print(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", known],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    new = {name.partition(".")[0] for name in done.stdout.split()}
    assert "connectors" in new
    assert new - sys.stdlib_module_names == {"connectors"}
