"""Carrying a plan out: check the ground, send each step, read back.

Slurm's exit codes and messages can't be relied on alone: `GrpTRES=gres/gpu=abc` ends with 0 and sets the limit to 0,
"Modified qos..." comes also when nothing changed, scancel of an unknown job is silent, and a list of nodes of which
one can't be resumed is resumed but for that one, with exit code 1. So a step counts as carried out when reading back
shows it, as refused when reading back shows what stood there before; the words are kept for people.
"""

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from connectors.change import (
    Change,
    Drain,
    Expectation,
    Found,
    Outcome,
    Plan,
    Receipt,
    Resume,
    Step,
    StepAnswer,
)  # fmt: skip
from connectors.connector import Answer
from connectors.errors import ConnectorError, Moved, NotPermitted, Refused, Unreachable
from connectors.ground import MISSING, check, holds, lookup, moved
from connectors.model import Snapshot
from connectors.slurm.columns import decode
from connectors.slurm.framing import BROKEN_OFF, TIMED_OUT, frames, new_nonce, script
from connectors.transport.shell import Shell

Reread = Callable[[], Awaitable[Snapshot]]

_STEP_TIMEOUT_S = 60
_GRACE_S = 10.0  # the shell gives up later than the command's own time limit
_PAUSES_S = (0.3, 0.7, 1.0, 2.0, 2.0)  # slurmctld learns of sacctmgr's changes within moments
_NOT_PERMITTED = re.compile(
    r"invalid user id|access/permission denied|permission denied|doesn't have privilege|not permitted|nothing modified"
    r"|didn't affect anything|data has not changed|coordinators can not",
    re.IGNORECASE,
)
_COMPLAINT = re.compile(r"\berror:|" + _NOT_PERMITTED.pattern, re.IGNORECASE)
# 26.05 says this after an answer that was complete
_HARMLESS = re.compile(r"^sacctmgr: error: Getting response to message type: DBD_FINI$")

# besides an answer without its end: the time limit, and the end by a signal (128 + 1 to 64; scancel's own 210 is none)
_NO_ANSWER = frozenset({BROKEN_OFF, TIMED_OUT, *range(129, 193)})


class _Done(NamedTuple):
    """What is known of the steps that were sent."""

    answers: tuple[StepAnswer, ...] = ()
    steps: tuple[Step, ...] = ()


async def apply(
    plan: Plan,
    *,
    shell: Shell,
    reread: Reread,
    slurm_path: str | None = None,
    cluster_name: str | None = None,
    pauses_s: Sequence[float] = _PAUSES_S,
) -> Receipt:
    """Carry the plan out and return what came of it; `pauses_s` are the waits between attempts to read back.

    Raises Moved before anything was sent, NotPermitted or Refused when nothing was changed, Unreachable when the first
    step got no answer and reading back shows that nothing changed.
    """
    began = time.perf_counter()
    ground = await reread()
    differences = moved(plan.expects, ground)
    if differences:
        raise Moved(differences, cluster=plan.cluster)
    run = _Run(plan, shell, reread, ground, tuple(pauses_s), slurm_path, cluster_name, began)
    done = _Done()
    for step in plan.steps:
        answer, lost = await run.send(step)
        done = _Done((*done.answers, answer), done.steps)
        if lost is not None or _complains(answer):
            snapshot = await run.look(step.results, run.pauses_after(answer, lost))
            if not run.happened(step, done, snapshot):
                return run.stopped(step, done, snapshot, lost)
        done = _Done(done.answers, (*done.steps, step))
    return await run.finished(done)


class _Run:
    """One plan on its way: sends steps, and says what reading back shows of them."""

    def __init__(
        self,
        plan: Plan,
        shell: Shell,
        reread: Reread,
        ground: Snapshot,
        pauses_s: tuple[float, ...],
        slurm_path: str | None,
        cluster_name: str | None,
        began: float,
    ) -> None:
        """Keep what the steps are sent with; `ground` is the reading that they stand on."""
        self.plan = plan
        self.shell = shell
        self.reread = reread
        self.ground = ground
        self.pauses_s = pauses_s
        self.slurm_path = slurm_path
        self.cluster_name = cluster_name
        self.began = began

    async def send(self, step: Step) -> tuple[StepAnswer, Unreachable | None]:
        """Run one step's command; what got no whole answer comes with the error that says so."""
        nonce = new_nonce()
        commands = {"step": step.argv}
        text = script(
            commands,
            nonce,
            timeout_s=_STEP_TIMEOUT_S,
            slurm_path=self.slurm_path,
            cluster_name=self.cluster_name,
        )
        try:
            answer = await self.shell.run(text, timeout_s=_STEP_TIMEOUT_S + _GRACE_S)
        except ConnectorError as error:
            return _unanswered(step), self._lost(step, str(error))
        framed = frames(answer.out, answer.err, nonce, commands).get("step")
        if framed is None or framed.code in _NO_ANSWER:
            why = "it broke off" if framed is None or framed.code == BROKEN_OFF else "the command was ended"
            return _unanswered(step, framed), self._lost(step, why)
        said = StepAnswer(native=step.native, code=framed.code, out=decode(framed.out), err=decode(framed.err))
        return said, None

    def happened(self, step: Step, done: _Done, snapshot: Snapshot | None) -> bool:
        """Return whether a step that was complained of is carried out nevertheless: all that it was for came about.

        What stood there before proves nothing.
        """
        if snapshot is None or not step.results:
            return False
        there = all(found.ok for found in check(step.results, snapshot))
        return there and any(self._touched(item, done, snapshot) for item in step.results)

    def stopped(self, step: Step, done: _Done, snapshot: Snapshot | None, lost: Unreachable | None) -> Receipt:
        """Return the receipt of a plan that ended at a step, or raise if nothing at all was changed."""
        unseen = snapshot is None or not step.results
        if snapshot is not None and any(self._touched(item, done, snapshot) for item in step.results):
            right = [found.ok for found in check(step.results, snapshot)]
            outcome: Outcome = "partial" if done.steps or any(right) else "differs"
            return self._receipt(_Done(done.answers, (*done.steps, _narrowed(step, snapshot))), snapshot, outcome, lost)
        if lost is not None and unseen:  # it may have been carried out
            return self._receipt(_Done(done.answers, (*done.steps, step)), snapshot, "unread", lost)
        if done.steps:
            return self._receipt(done, snapshot, "unread" if snapshot is None else "partial", lost)
        raise lost or self._refusal(step, done.answers[-1], unchanged=None if unseen else True)

    async def finished(self, done: _Done) -> Receipt:
        """Return the receipt of a plan whose steps were all taken, after reading back until it shows them."""
        snapshot = await self.look(self.plan.results, self.pauses_s)
        if snapshot is None or not all(step.results for step in self.plan.steps):
            outcome: Outcome = "unread"
        else:
            outcome = "verified" if all(found.ok for found in check(self.plan.results, snapshot)) else "differs"
        return self._receipt(done, snapshot, outcome, None)

    def _receipt(self, done: _Done, snapshot: Snapshot | None, outcome: Outcome, lost: Unreachable | None) -> Receipt:
        results = self.plan.results if len(done.steps) == len(self.plan.steps) else _last(done.steps)
        found: tuple[Found, ...] = () if snapshot is None else check(results, snapshot)
        said = [_said(answer) for answer in done.answers if answer.code >= 0 and _complains(answer)]
        return Receipt(
            plan=self.plan,
            outcome=outcome,
            applied_at=datetime.now(UTC),
            took_ms=(time.perf_counter() - self.began) * 1000,
            answers=done.answers,
            found=found,
            undo=_undo(done.steps),
            said="; ".join([*said, *([str(lost)] if lost else [])]) or None,
        )

    def pauses_after(self, answer: StepAnswer, lost: Unreachable | None) -> tuple[float, ...]:
        """Return how patiently to read back: a lost answer may still take effect, a plain no does not."""
        if lost is not None:
            return self.pauses_s
        return () if _NOT_PERMITTED.search(_said(answer)) else self.pauses_s[:1]

    async def look(self, results: Sequence[Expectation], pauses_s: Sequence[float]) -> Snapshot | None:
        """Read back until it shows the results, once more after each pause; None if it can't be read."""
        snapshot = await self._read()
        for pause in pauses_s:
            if snapshot is not None and all(found.ok for found in check(results, snapshot)):
                break
            await asyncio.sleep(pause)
            snapshot = await self._read() or snapshot
        return snapshot

    async def _read(self) -> Snapshot | None:
        try:
            return await self.reread()
        except ConnectorError:
            return None  # said in the receipt: outcome `unread`, or `unchanged` None

    def _touched(self, item: Expectation, done: _Done, snapshot: Snapshot) -> bool:
        """Return whether a value is as wanted now and was not, or is one that only a change moves, and it moved."""
        before: Expectation | None = None
        for left in _last(done.steps):
            if (left.table, left.key, left.column) == (item.table, item.key, item.column):
                before = left
        now = _value(item, snapshot)
        if before is None:
            old = _value(item, self.ground)
            return (holds(item, now) and not holds(item, old)) or (_settled(item) and now != old)
        return not holds(before, now) and (holds(item, now) or _settled(item))

    def _refusal(self, step: Step, answer: StepAnswer, *, unchanged: bool | None) -> NotPermitted:
        said = _said(answer)
        kind = NotPermitted if _NOT_PERMITTED.search(said) else Refused
        after = "nothing was changed" if unchanged else "it could not be read back whether anything was changed"
        verb = "not permitted" if kind is NotPermitted else "refused"
        return kind(
            f"{verb}: {said}; {after}",
            cluster=self.plan.cluster,
            source=_program(step),
            said=said,
            unchanged=unchanged,
            hint="or one of the users does not exist" if _names_users(step) and "Invalid user id" in said else None,
        )

    def _lost(self, step: Step, why: str) -> Unreachable:
        return Unreachable(
            f"no answer to `{step.native}`: {why}; reading back shows no change so far",
            cluster=self.plan.cluster,
            source=_program(step),
            hint="look again before repeating it",
        )


def _unanswered(step: Step, framed: Answer | None = None) -> StepAnswer:
    out, err = (decode(framed.out), decode(framed.err)) if framed else ("", "")
    return StepAnswer(native=step.native, code=-1 if framed is None else framed.code, out=out, err=err)


def _complains(answer: StepAnswer) -> bool:
    """Return whether an answer sounds like a failure; an `error:` counts even with exit code 0."""
    lines = [line for line in f"{answer.err}\n{answer.out}".splitlines() if not _HARMLESS.match(line.strip())]
    return answer.code != 0 or any(_COMPLAINT.search(line) for line in lines)


def _said(answer: StepAnswer) -> str:
    """Return Slurm's own words, errors first, as one line."""
    lines = [line.strip() for line in f"{answer.err}\n{answer.out}".splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines)) or f"nothing, exit code {answer.code}"


def _program(step: Step) -> str:
    return next((word for word in step.argv if word != "env" and "=" not in word), "shell")


def _names_users(step: Step) -> bool:
    # scontrol says "Invalid user id" both of a caller who may not and of a user it does not know
    return any(word.startswith("Users=") for word in step.argv)


def _last(steps: Sequence[Step]) -> tuple[Expectation, ...]:
    found = {(item.table, item.key, item.column): item for step in steps for item in step.results}
    return tuple(found.values())


def _value(item: Expectation, snapshot: Snapshot) -> Any:
    """Return what stands there; a quota without a row has no limit, and the row comes and goes with use."""
    value = lookup(snapshot, item)
    return math.inf if value is MISSING and item.table == "quotas" else value


def _settled(item: Expectation) -> bool:
    """Return whether the value stays as it is until somebody changes it; states and priorities move by themselves."""
    return item.table in {"quotas", "reservations"} or item.column in {"weight", "max_run_s", "reason"}


def _narrowed(step: Step, snapshot: Snapshot) -> Step:
    """Return the step with only that undone which came about: of a list of nodes, those that did change."""
    if step.undo is None or not all(isinstance(change, (Drain, Resume)) for change in step.undo):
        return step
    missed = {found.expected.key for found in check(step.results, snapshot) if not found.ok}
    undo = tuple(
        msgspec.structs.replace(change, nodes=nodes)
        for change in step.undo
        if isinstance(change, (Drain, Resume)) and (nodes := tuple(n for n in change.nodes if n not in missed))
    )
    return msgspec.structs.replace(step, undo=undo)


def _undo(steps: Sequence[Step]) -> tuple[Change, ...] | None:
    """Return the inverse of these steps, the last first; None if one of them has none, or there is none to undo."""
    undo: list[Change] = []
    for step in reversed(steps):
        if step.undo is None:
            return None
        undo += step.undo
    return tuple(undo) or None
