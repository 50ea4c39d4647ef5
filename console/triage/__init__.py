"""Diagnoses: why a job does not run, and what needs a person. Pure: it reads snapshots and nothing else."""
