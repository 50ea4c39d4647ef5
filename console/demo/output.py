"""What a simulated job has written so far."""

from connectors.errors import NotFound
from console.demo.state import Job, State
from console.demo.telemetry import chance

_EVERY_S = 30
_LINES = 40
_LAST_WORDS = {
    "failed": "RuntimeError: CUDA error: device-side assert triggered",
    "out_of_memory": "torch.OutOfMemoryError: CUDA out of memory",
    "timeout": "slurmstepd: error: *** JOB CANCELLED DUE TO TIME LIMIT ***",
    "cancelled": "slurmstepd: error: *** JOB CANCELLED ***",
    "succeeded": "done",
}


def lines(state: State, key: str, cluster: str) -> list[str]:
    """Return the last lines of a job's output, oldest first; none before it starts. NotFound."""
    job = state.job(key) or next((one for one in reversed(state.ended) if one.id == key), None)
    if job is None:
        raise NotFound("job", key, cluster=cluster)
    if job.start is None:
        return []
    until = (job.end if job.end is not None else state.now) - job.start
    last = until // _EVERY_S
    written = [_line(job, step) for step in range(max(0, last - _LINES), last + 1)] if job.ask.load != "idle" else []
    return [*written, _LAST_WORDS[job.state]] if job.state in _LAST_WORDS else written


def _line(job: Job, step: int) -> str:
    if job.ask.kind == "training":
        loss = 1.6 + 4.0 / (1 + step / 20) + 0.05 * chance(job.id, step)
        rate = 1200 * job.gpus + int(80 * chance(job.id, step, "rate"))
        return f"step {step * 10:>7}  loss {loss:.4f}  {rate} tokens/s"
    if job.ask.kind == "inference":
        p95 = int(180 + 60 * chance(job.id, step, "p95"))
        return f"served {int(200 + 90 * chance(job.id, step))} requests, p95 {p95} ms"
    return f"item {step + 1} of {max(step + 1, job.ask.limit_s // _EVERY_S)}"
