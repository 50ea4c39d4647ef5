"""The embedded demo clusters keep the contract of connectors. Others: see `contract.py`."""

import pytest

pytest.register_assert_rewrite("contract")

from contract import Bed, ConnectorContract, ReadingContract, resolved  # noqa: E402 - after its asserts are rewritten

from connectors.change import verb  # noqa: E402 - the same
from connectors.raw import save_raw  # noqa: E402 - the same


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
        return Bed(system="demo", cluster="a-bug-report", settings=settings, captured=tmp_path / "made")
