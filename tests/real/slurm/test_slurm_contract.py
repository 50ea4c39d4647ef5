"""Real Slurm keeps the contract of connectors, changes and all."""

import pytest

pytest.register_assert_rewrite("contract")

from contract import Bed, ConnectorContract  # noqa: E402 - after its asserts are rewritten


@pytest.fixture(scope="module")
def busy(slurm):
    """Fill the cluster once; no job waits for the reservation, which could not be dropped else."""
    jobs = slurm.scenario()
    slurm.run("root", ["scancel", str(jobs["in-resv"].id)], check=True)
    return slurm


class TestSlurm(ConnectorContract):
    @pytest.fixture
    def bed(self, busy):
        settings = {"host": busy.host("opsadmin"), "ssh_config": str(busy.ssh_config)}
        drifting = frozenset({"priority"})
        return Bed(system="slurm", cluster="halcyon", settings=settings, drifting=drifting)
