"""Job ids: `123`, `123_4`, `123_[1,3,5-7:2%4]`, `23+0`, `4.batch`, and array lists that Slurm has cut (`[0-3,5...%3]`).

Sources: squeue(1), JOBID and SLURM_BITSTR_LEN; sacct(1), JobID. Slurm cuts a task list by overwriting its end with
three dots, in the middle of a number or not, and appends the throttle after that.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from connectors.notation.errors import NotationError
from connectors.notation.numbers import format_ranges, runs, whole

_WHAT = "job id"
_ID = re.compile(
    r"(?P<base>[0-9]{1,18})"
    r"(?:_(?:(?P<task>[0-9]{1,18})|\[(?P<list>[0-9,:%.-]*)\])|\+(?P<het>[0-9]{1,18}))?"
    r"(?:\.(?P<step>[A-Za-z0-9]{1,40}(?:\+[0-9]{1,18})?))?"
)
_TASKS = re.compile(r"(?P<list>[0-9,:-]*)(?P<cut>\.\.\.)?(?:%(?P<throttle>[0-9]{1,18}))?")
_TASK = re.compile(r"(?P<low>[0-9]{1,18})(?:-(?P<high>[0-9]{1,18})(?::(?P<step>[0-9]{1,18}))?)?")
_MAX_UNSORTED = 1_000_000


@dataclass(frozen=True, slots=True)
class TaskList:
    """Array task ids as ascending, disjoint ranges.

    `throttle` is how many may run at once (`%4`), None where there is no such limit. Where `truncated`, `ranges` holds
    the tasks that are certain, and at least one more exists.
    """

    ranges: tuple[range, ...]
    throttle: int | None = None
    truncated: bool = False

    @property
    def count(self) -> int:
        """Number of tasks; a lower bound where the list is truncated."""
        # not `len`: a range may be longer than a machine word allows there
        return sum((one[-1] - one[0]) // one.step + 1 for one in self.ranges) + self.truncated

    def __str__(self) -> str:
        """Return the list as Slurm writes it, without brackets."""
        known = format_ranges(self.ranges)
        cut = (",..." if known else "...") if self.truncated else ""
        return known + cut + ("" if self.throttle is None else f"%{self.throttle}")


@dataclass(frozen=True, slots=True)
class JobId:
    """One job id: `base`, and the array tasks, the heterogeneous component or the step that it names.

    `tasks` is None for a job that is no array; `bracketed` says that the tasks were a list, which in Slurm is the one
    record of all tasks still pending. `throttle` is `%4`, `step` is `batch`, `extern` or a number as text.
    """

    base: int
    tasks: tuple[range, ...] | None = None
    throttle: int | None = None
    het_offset: int | None = None
    step: str | None = None
    truncated: bool = False
    bracketed: bool = False

    @property
    def count(self) -> int:
        """Number of jobs that the id stands for; a lower bound where the list is truncated."""
        return 1 if self.tasks is None else TaskList(self.tasks, self.throttle, self.truncated).count


@lru_cache(maxsize=8192)
def parse_job_id(text: str) -> JobId:
    """Return the parts of a job id as squeue, sacct and scontrol write it. Raises NotationError."""
    match = _ID.fullmatch(text)
    if match is None:
        raise NotationError(_WHAT, text, "Slurm writes 123, 123_4, 123_[0-9%2], 123+0 or 123.batch")
    base, step = int(match["base"]), match["step"]
    if match["list"] is not None:
        tasks = _task_list(text, match["list"])
        return JobId(base, tasks.ranges, tasks.throttle, None, step, tasks.truncated, bracketed=True)
    if match["task"] is not None:
        task = int(match["task"])
        return JobId(base, (range(task, task + 1),), step=step)
    return JobId(base, het_offset=None if match["het"] is None else int(match["het"]), step=step)


def format_job_id(job: JobId) -> str:
    """Return the id as Slurm writes it; `parse_job_id` reads it back."""
    written = str(job.base)
    if job.tasks is not None:
        tasks = str(TaskList(job.tasks, job.throttle, job.truncated))
        plain = not job.bracketed and whole(tasks) is not None
        written += f"_{tasks}" if plain else f"_[{tasks}]"
    if job.het_offset is not None:
        written += f"+{job.het_offset}"
    return written if job.step is None else f"{written}.{job.step}"


@lru_cache(maxsize=8192)
def parse_task_list(text: str) -> TaskList | None:
    """Return the tasks of `0`, `2-9%2`, `1,3,5-7:2` or `1,3,...`; None for ``, `N/A` and `(null)`.

    Raises NotationError.
    """
    return None if text in {"", "N/A", "(null)"} else _task_list(text, text)


def _task_list(text: str, inner: str) -> TaskList:
    match = _TASKS.fullmatch(inner)
    if match is None:
        raise NotationError(_WHAT, text, "not a list of array tasks")
    throttle = None if match["throttle"] is None else int(match["throttle"])
    parts = match["list"].split(",")
    cut = match["cut"] is not None
    # With SLURM_BITSTR_LEN=1 Slurm writes `[%3]`: everything is cut, even the dots.
    if not match["list"] and not cut and throttle is not None:
        cut = True
    last = parts.pop() if cut else ""
    ranges = [_range(text, part) for part in parts]
    if last:
        ranges += _certain(last)
    return TaskList(_disjoint(text, ranges), throttle, cut)


def _range(text: str, part: str) -> range:
    match = _TASK.fullmatch(part)
    if match is None:
        raise NotationError(_WHAT, text, f"'{part}' is not a task or a range of tasks")
    low = int(match["low"])
    high = low if match["high"] is None else int(match["high"])
    step = 1 if match["step"] is None else int(match["step"])
    if high < low or step < 1:
        raise NotationError(_WHAT, text, f"the range '{part}' runs backwards or has no step")
    return range(low, high + 1, step)


def _certain(part: str) -> list[range]:
    """Return what is certain of a last item that was cut: a number may have lost digits, a range's first has not."""
    match = re.fullmatch(r"([0-9]{1,18})-([0-9]{0,18})(:?[0-9]*)", part)
    if match is None:
        return []
    low = int(match[1])
    high = int(match[2]) if match[2] and not match[3] else low
    return [range(low, max(low, high) + 1)]


def _disjoint(text: str, ranges: Sequence[range]) -> tuple[range, ...]:
    if all(before[-1] < after[0] for before, after in pairwise(ranges)):
        return tuple(ranges)
    if TaskList(tuple(ranges)).count > _MAX_UNSORTED:
        raise NotationError(_WHAT, text, f"ranges that overlap, of more than {_MAX_UNSORTED:,} tasks")
    return runs(task for one in ranges for task in one)
