"""The embedded demo clusters keep the contract of connectors. Others: see `contract.py`."""

from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

pytest.register_assert_rewrite("contract")

from contract import Bed, ConnectorContract, ReadingContract, resolved  # noqa: E402 - after its asserts are rewritten

from connectors.change import verb  # noqa: E402 - the same
from connectors.raw import save_raw  # noqa: E402 - the same

RECORDED = Path(__file__).resolve().parent / "recorded/slurm"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUDECK_STATE", str(tmp_path / "state"))


class TestDemo(ConnectorContract):
    @pytest.fixture
    def bed(self):
        return Bed(system="demo", cluster="demo:lab48", settings={"scenario": "lab48"})

    async def test_every_verb_makes_sense_here(self, bed, connector, snapshot):
        found = {verb(changes[0]) for changes in resolved(connector, bed, snapshot)}
        undoing = {"unreserve", "start"}  # which the others are taken back with
        assert found | undoing == set(snapshot.meta.capabilities.writes)


class TestDemoScenarios(ReadingContract):
    @pytest.fixture(params=["mid128", "quad"])
    def bed(self, request):
        return Bed(system="demo", cluster=f"demo:{request.param}", settings={"scenario": request.param})


class TestDemoCaptured(ReadingContract):
    @pytest.fixture
    async def bed(self, tmp_path):
        settings = {"scenario": "lab48"}
        live = Bed(system="demo", cluster="demo:lab48", settings=settings).open()
        save_raw(await live.read(), tmp_path / "made")
        return Bed(system="demo", cluster="a-bug-report", settings={}, captured=tmp_path / "made")


BROKEN = {
    "a key twice": ("jobs", pl.col("key").first(), lambda suite, one: suite.test_keys_are_unique(one, "jobs")),
    "no state": ("nodes", pl.lit(None).alias("state_raw"), lambda suite, one: suite.test_states_are_said(one)),
    "a queue that is not there": (
        "jobs", pl.lit(["qos:gone"]).alias("bound_by"), lambda suite, one: suite.test_rows_name_rows_that_are_there(one),
    ),
    "more than all": (
        "gpus", pl.lit(37.1).alias("utilization_ratio"), lambda suite, one: suite.test_figures_are_figures(one),
    ),
    "zero for no limit": (
        "jobs", pl.lit(0.0).alias("time_limit_s"), lambda suite, one: suite.test_zero_is_not_said_for_what_is_not_known(one),
    ),
    "a sentinel": (
        "jobs", pl.lit(2.0**32 - 2).alias("gpus"), lambda suite, one: suite.test_zero_is_not_said_for_what_is_not_known(one),
    ),
    "1970": (
        "jobs", pl.from_epoch(pl.lit(0)).alias("submit_time"), lambda suite, one: suite.test_times_are_times(one),
    ),
    "ended before it began": (
        "jobs", pl.col("submit_time").alias("end_time") - timedelta(days=900), lambda suite, one: suite.test_times_are_times(one),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
async def test_the_suite_finds_what_is_wrong(name):
    """A suite that never fails would hold nobody to anything."""
    table, wrong, check = BROKEN[name]
    connector = Bed(system="demo", cluster="demo:quad", settings={"scenario": "quad"}).open()
    snapshot = connector.interpret(await connector.read())
    check(ReadingContract(), snapshot)
    frame = snapshot.table(table).with_columns(wrong)
    with pytest.raises(AssertionError):
        check(ReadingContract(), snapshot.with_tables(**{table: frame.drop("cluster")}))


class TestSlurmCaptured(ReadingContract):
    @pytest.fixture
    def bed(self):
        return Bed(system="slurm", cluster="halcyon", settings={"host": "login"}, captured=RECORDED / "22.05-live")
