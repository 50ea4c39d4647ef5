"""From simulated seeds to a Forecast: percentiles, what binds each job now, and whose end lets it start."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from connectors.text import _, plural
from console.scheduling.cluster import Job
from console.scheduling.forecast import Forecast, Group, JobForecast, Preempted, Waits
from console.scheduling.limits import full
from console.scheduling.placement import nodes_of, shape
from console.scheduling.play import MAX_TASKS, Result, Run
from console.scheduling.profile import EPSILON
from console.scheduling.shortsight import BOOKED
from console.scheduling.world import World
from console.triage.words import span

_MOST_FREES = 20
_SLOW_S = 300.0  # plans further apart than this are told


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the percentile by nearest rank of ascending values (not empty)."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def waits_of(waits: Iterable[float]) -> Waits:
    """Return figures over waits; inf stands for no start within the horizon."""
    ordered = sorted(waits)
    started = sum(math.isfinite(value) for value in ordered)

    def finite(share: float) -> float | None:
        value = nearest_rank(ordered, share) if ordered else math.inf
        return value if math.isfinite(value) else None

    return Waits(jobs=len(ordered), started=started, p50_s=finite(0.5), p90_s=finite(0.9), p95_s=finite(0.95))


def make_forecast(world: World, results: Sequence[Result], horizon_s: float, basis: str) -> Forecast:
    """Return the forecast of one world from its seeds (at least one)."""
    jobs = tuple(_job_forecast(world, job, results) for job in world.cluster.pending)
    waits = {job.key: _waits_by_task(job, results) for job in world.cluster.pending}
    hours = [_gpu_hours(result, horizon_s) for result in results]
    held = sum(value for one in hours for _job, value in one) / len(hours)
    notes = list(dict.fromkeys(world.notes))
    if world.has_history:
        notes.append(
            _("run times are drawn from history: only the first {count} in line keep a place").format(count=BOOKED)
        )
    pace_s, interval_s = results[0].pace_s, world.policy.planning.interval_s
    if pace_s >= _SLOW_S:
        notes.append(
            _("the queue is long: it is planned anew every {pace}, where the scheduler does every {interval}").format(
                pace=span(pace_s), interval=span(interval_s)
            )
        )
    if any(result.cut_short for result in results):
        notes.append(_("the cluster is too busy to be simulated to the end: later starts are missing"))
    if any(job.tasks > MAX_TASKS for job in world.cluster.pending):
        notes.append(_("of each array only the first {count} tasks are simulated").format(count=MAX_TASKS))
    in_service = _in_service(world, horizon_s)
    return Forecast(
        cluster=world.name, policy=world.policy.name, made_at=world.cluster.taken_at, horizon_s=horizon_s,
        seeds=len(results), basis=basis, jobs=jobs, waits=waits_of(w for one in waits.values() for w in one),
        by_team=_groups(world, waits, hours, _team), by_queue=_groups(world, waits, hours, _queue),
        preempted=_preempted(world, results[0]),
        utilization_ratio=min(1.0, held * 3600 / in_service) if in_service > 0 else None, gpu_hours=held,
        not_modelled=tuple(notes),
    )  # fmt: skip


def _team(job: Job) -> str:
    return job.team or ""


def _queue(job: Job) -> str:
    return job.queue or ""


def _waits_by_task(job: Job, results: Sequence[Result]) -> list[float]:
    """Return the median wait over seeds of each task of a row."""
    found = []
    submit = job.submit if job.submit is not None else 0.0
    per_seed = [result.starts.get(job.key, []) for result in results]
    for task in range(min(job.tasks, MAX_TASKS)):
        starts = sorted(starts[task][0] if task < len(starts) else math.inf for starts in per_seed)
        found.append(nearest_rank(starts, 0.5) - submit)
    return found


def _job_forecast(world: World, job: Job, results: Sequence[Result]) -> JobForecast:
    cluster, gate = world.cluster, world.gates[job.key]
    first = [result.starts.get(job.key) or [(math.inf, ())] for result in results]
    starts = sorted(one[0][0] for one in first)
    p50, p90 = nearest_rank(starts, 0.5), nearest_rank(starts, 0.9)
    submit = job.submit
    nodes = next((one[0][1] for one in first if one[0][0] <= p50 and one[0][1]), ())
    binding, why, frees = _binding(world, job, p50, nodes, results[0])
    return JobForecast(
        key=job.key, id=job.id, name=job.name, user=job.user, team=job.team, queue=job.queue, gpus=job.gpus,
        tasks=job.tasks, submit_time=None if submit is None else cluster.moment(submit),
        start_p50=cluster.moment(p50) if math.isfinite(p50) else None,
        start_p90=cluster.moment(p90) if math.isfinite(p90) else None,
        wait_p50_s=p50 - submit if submit is not None and math.isfinite(p50) else None,
        wait_p90_s=p90 - submit if submit is not None and math.isfinite(p90) else None, never=gate.never, why=why,
        binding=binding, frees=frees, nodes=tuple(cluster.names[node] for node in nodes),
    )  # fmt: skip


def _binding(
    world: World, job: Job, start: float, nodes: Sequence[int], result: Result
) -> tuple[str, str, tuple[str, ...]]:
    """Return what binds the job now, in a word and in words, and the running jobs whose end lets it start."""
    gate = world.gates[job.key]
    if gate.binding:
        return gate.binding, gate.why, _parents(world, gate.parents)
    blocked = full(world.claims[job.key], world.used, world.limits())
    if blocked is not None:
        return _bound_by_counter(world, job, blocked)
    if start <= EPSILON:
        return "", _("can start now"), ()
    window = _free_for(world, job)
    frees = _freed_by(world, job, nodes, start, result)
    if window >= job.limit_s - EPSILON:
        return "order", _kept_for_others(world, job, result), frees
    if window > EPSILON:
        name = _first_reservation(world, job)
        if name is not None:
            text = _("fits now, but its limit of {limit} reaches into reservation {name}, {room} from now")
            return (
                f"reservation:{name}",
                text.format(limit=span(job.limit_s), name=name, room=span(window)),
                frees,
            )
    if job.reservation is not None:
        begins = min((one.start for one in world.cluster.reserved if one.name == job.reservation), default=0.0)
        if begins > 0:
            return f"reservation:{job.reservation}", _("its reservation has not begun"), frees
    fitting = _fitting_now(world, job)
    text = _("asks {nodes} with {shape} free; now {count} of them").format(
        nodes=nodes_of(job), shape=shape(job.demand), count=fitting
    )
    return "nodes", text, frees


def _kept_for_others(world: World, job: Job, result: Result) -> str:
    room = result.rooms.get((world.places.of(job).key, job.demand, job.nodes), 0.0)
    if not EPSILON < room < job.limit_s:
        return _("there is room, but it is kept for jobs ahead of it")
    text = _("there is room for {room}, then it is kept for jobs ahead of it; its limit is {limit}")
    return text.format(room=span(room), limit=span(job.limit_s))


def _parents(world: World, keys: Sequence[str]) -> tuple[str, ...]:
    running = {job.key: job.id for job in world.cluster.running}
    return tuple(running[key] for key in keys if key in running)[:_MOST_FREES]


def _bound_by_counter(world: World, job: Job, number: int) -> tuple[str, str, tuple[str, ...]]:
    counter = world.policy.counters.all[number]
    amount = next(claim.amount for claim in world.claims[job.key] if claim.counter == number)
    if counter.queue.startswith("throttle:"):
        why = plural(
            "{used} of at most {count} task of its array runs",
            "{used} of at most {count} tasks of its array run",
            round(counter.limit),
        ).format(used=f"{world.used[number]:g}", count=f"{counter.limit:g}")
        return "throttle", why, _holders(world, number, amount)
    why = _("{queue}: {used} of {limit} {label} in use, it asks {amount}").format(
        queue=counter.queue, used=f"{world.used[number]:g}", limit=f"{counter.limit:g}", label=counter.label,
        amount=f"{amount:g}",
    )  # fmt: skip
    return f"quota:{counter.queue}", why, _holders(world, number, amount)


def _holders(world: World, number: int, amount: float) -> tuple[str, ...]:
    """Return the running jobs in the counter, soonest end first, until their ends make enough room."""
    room = world.policy.counters.all[number].limit - world.used[number]
    found: list[str] = []
    for _end, _number, name, held in world.holders(number):
        if room + EPSILON >= amount or len(found) >= _MOST_FREES:
            break
        found.append(name)
        room += held
    return tuple(found)


def _free_for(world: World, job: Job) -> float:
    """Return for how long the job's nodes would be free from now on if nothing were booked; 0: not free now."""
    spans = _spans(world, job)
    return spans[job.nodes - 1] if len(spans) >= job.nodes else 0.0


def _fitting_now(world: World, job: Job) -> int:
    return bisect_left(_spans(world, job), -EPSILON, key=lambda span: -span)


def _spans(world: World, job: Job) -> list[float]:
    """Return for how long each of the job's nodes has room for it from now on, longest first."""
    arena, where = world.arenas[job.reservation], world.places.of(job)
    kept = world.spans.get((where.key, job.demand))
    if kept is None:
        kept = world.spans[where.key, job.demand] = sorted(
            (arena.base[node].free_until(arena.needs(node, job.demand), 0.0) for node in where.nodes), reverse=True
        )
    return kept


def _first_reservation(world: World, job: Job) -> str | None:
    inside = set(world.places.of(job).nodes)
    ahead = [
        (one.start, one.name)
        for one in world.cluster.reserved
        if one.start < job.limit_s and one.name != job.reservation and inside & set(one.nodes)
    ]
    return min(ahead)[1] if ahead else None


def _freed_by(world: World, job: Job, nodes: Sequence[int], start: float, result: Result) -> tuple[str, ...]:
    """Return the running jobs on the nodes it starts on, whose end by then makes room for it."""
    arena = world.arenas[job.reservation]
    found: dict[str, float] = {}
    for node in nodes:
        if node not in arena.base:
            continue
        need = arena.needs(node, job.demand)
        free = [*arena.base[node].free_at(0.0)]
        for end, name, demand in result.ends.get(node, ()):
            if end > start + EPSILON or all(have >= want - EPSILON for have, want in zip(free, need[:3], strict=True)):
                break
            found[name] = end
            free = [have + gain for have, gain in zip(free, demand[:3], strict=True)]
    return tuple(sorted(found, key=lambda name: (found[name], name)))[:_MOST_FREES]


def _gpu_hours(result: Result, horizon_s: float) -> list[tuple[Job, float]]:
    return [
        (run.job, max(0.0, min(run.end, horizon_s) - max(run.start, 0.0)) * _held(run) / 3600) for run in result.runs
    ]


def _held(run: Run) -> float:
    return sum(demand.gpus for _node, demand in run.placed) if run.placed else run.job.gpus


def _in_service(world: World, horizon_s: float) -> float:
    """Return GPU-seconds in service: serving nodes all the time, others as long as their jobs hold GPUs."""
    cluster = world.cluster
    total = float(cluster.gpus[cluster.serving].sum()) * horizon_s
    for job in cluster.running:
        for node, demand in job.placed:
            if not cluster.serving[node]:
                total += min(job.end, horizon_s) * demand.gpus
    return total


def _groups(
    world: World,
    waits: dict[str, list[float]],
    hours: list[list[tuple[Job, float]]],
    name_of: Callable[[Job], str],
) -> tuple[Group, ...]:
    collected: dict[str, list[float]] = {}
    for job in world.cluster.pending:
        collected.setdefault(name_of(job), []).extend(waits[job.key])
    gpu_hours: dict[str, float] = {}
    for one in hours:
        for job, value in one:
            gpu_hours[name_of(job)] = gpu_hours.get(name_of(job), 0.0) + value / len(hours)
    return tuple(
        Group(name=name, waits=waits_of(collected.get(name, [])), gpu_hours=gpu_hours.get(name, 0.0))
        for name in sorted({*collected, *gpu_hours})
    )


def _preempted(world: World, result: Result) -> tuple[Preempted, ...]:
    return tuple(
        Preempted(
            id=one.job.id, name=one.job.name, user=one.job.user, team=one.job.team, queue=one.job.queue,
            gpus=one.job.gpus, at=world.cluster.moment(one.at), by=one.by.id, lost_gpu_s=one.lost_gpu_s,
        )
        for one in result.evictions
    )  # fmt: skip
