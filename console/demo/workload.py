"""The jobs that come in: drawn hour by hour from a scenario and a seed, so that any hour can be had by itself."""

import random
from collections.abc import Iterator

from console.demo.scenarios import HOUR, Scenario, Scripted, Template
from console.demo.state import GIB, Ask

# What jobs come to, and how often: words of the `state` column.
_OUTCOMES = (("succeeded", 0.86), ("failed", 0.07), ("timeout", 0.03), ("cancelled", 0.02), ("out_of_memory", 0.02))
_MEMORY_PER_CPU_GIB = 6.0
_CPUS_PER_GPU = 12


def arrivals(scenario: Scenario, seed: int, hour: int) -> list[tuple[int, Ask]]:
    """Return the jobs submitted in an hour of simulated time (0 is the first), each with its second, in order."""
    draw = random.Random(f"{scenario.name}/{seed}/{hour}")  # noqa: S311 - a simulation, repeatable on purpose
    found: list[tuple[int, Ask]] = []
    at = hour * HOUR + draw.expovariate(scenario.per_hour / HOUR)
    weights = [template.weight for template in scenario.templates]
    while at < (hour + 1) * HOUR:
        template = draw.choices(scenario.templates, weights)[0]
        team = scenario.team(template.team)
        outcome = draw.choices([word for word, _share in _OUTCOMES], [share for _word, share in _OUTCOMES])[0]
        found.append((int(at), _ask(template, draw, user=draw.choice(team.users), outcome=outcome, scenario=scenario)))
        at += draw.expovariate(scenario.per_hour / HOUR)
    return found


def scripted(scenario: Scenario, seed: int, opened: int) -> Iterator[tuple[int, Scripted, Ask]]:
    """Yield the jobs that are always there with the second of their submission; `opened` is when a demo is opened."""
    for job in scenario.scripted:
        draw = random.Random(f"{scenario.name}/{seed}/{job.user}/{job.at}")  # noqa: S311 - repeatable on purpose
        ask = _ask(
            job.template, draw, user=job.user, outcome=job.outcome, scenario=scenario,
            run_s=job.template.limit_s if job.run_s is None else job.run_s, pinned=job.pinned,
        )  # fmt: skip
        yield opened + job.at, job, ask


def _ask(
    template: Template,
    draw: random.Random,
    *,
    user: str,
    outcome: str,
    scenario: Scenario,
    run_s: int | None = None,
    pinned: tuple[str, ...] = (),
) -> Ask:
    team = scenario.team(template.team)
    cpus = template.cpus or max(_CPUS_PER_GPU * template.gpus, 1)
    limit = template.limit_s
    if run_s is None:
        shares = {"timeout": 1.0, "failed": draw.uniform(0.01, 0.5), "out_of_memory": draw.uniform(0.01, 0.2)}
        run_s = int(limit * shares.get(outcome, draw.triangular(0.05, 0.98, 0.45)))
    return Ask(
        name=template.name, user=user, team=template.team,
        project=draw.choice(team.projects) if template.project else None, kind=template.kind,
        partition=template.partition, qos=template.qos, nodes=template.nodes, gpus=template.gpus, cpus=cpus,
        memory=cpus * _MEMORY_PER_CPU_GIB * GIB, model=template.model, limit_s=limit, run_s=max(1, run_s),
        outcome=outcome, load=template.load, pinned=pinned,
    )  # fmt: skip
