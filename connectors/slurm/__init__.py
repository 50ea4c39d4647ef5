"""Slurm: read over one shell, changed with its own commands."""

from connectors.slurm.connector import SlurmConnector

__all__ = ["SlurmConnector"]
