"""The field's notations: host lists, durations, job ids, resources, states, times, and text made safe to show.

Pure functions of the standard library: no input or output, no clock, no network. Every parser takes any text and
raises `NotationError`, and nothing else, for one it cannot read.
"""

from connectors.notation.arrays import JobId, TaskList, format_job_id, parse_job_id, parse_task_list
from connectors.notation.duration import (
    format_age,
    format_human_duration,
    format_slurm_duration,
    parse_duration,
    parse_human_duration,
)
from connectors.notation.errors import NotationError
from connectors.notation.gres import Gres, format_gres, parse_gres
from connectors.notation.hostlist import format_hostlist, parse_hostlist
from connectors.notation.quantity import (
    Memory,
    format_bytes,
    format_memory,
    format_quantity,
    parse_memory,
    parse_quantity,
)
from connectors.notation.safe import cells, cut, safe_text
from connectors.notation.states import States, split_states
from connectors.notation.times import format_when, parse_slurm_time, parse_when
from connectors.notation.tres import format_tres, gpus_of_tres, parse_limits, parse_tres

__all__ = [
    "Gres",
    "JobId",
    "Memory",
    "NotationError",
    "States",
    "TaskList",
    "cells",
    "cut",
    "format_age",
    "format_bytes",
    "format_gres",
    "format_hostlist",
    "format_human_duration",
    "format_job_id",
    "format_memory",
    "format_quantity",
    "format_slurm_duration",
    "format_tres",
    "format_when",
    "gpus_of_tres",
    "parse_duration",
    "parse_gres",
    "parse_hostlist",
    "parse_human_duration",
    "parse_job_id",
    "parse_limits",
    "parse_memory",
    "parse_quantity",
    "parse_slurm_time",
    "parse_task_list",
    "parse_tres",
    "parse_when",
    "safe_text",
    "split_states",
]
