"""Slurm's words: every spelling to its class, verdict, whose limit and which resource."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.triage.diagnosis import Cause
from console.triage.slurm import TOPICS
from console.triage.slurm_reasons import WORDS, classify

C = Cause


@pytest.mark.parametrize(
    ("word", "cause", "verdict", "over", "per", "resource"),
    [
        ("QOSGrpGRES", C.QUOTA_FULL, "wait", "qos", "group", "gpu"),
        ("AssocGrpGRES", C.QUOTA_FULL, "wait", "assoc", "group", "gpu"),
        ("AssocGrpCpuLimit", C.QUOTA_FULL, "wait", "assoc", "group", "cpu"),
        ("AssocGrpMemLimit", C.QUOTA_FULL, "wait", "assoc", "group", "memory"),
        ("AssocGrpBilling", C.QUOTA_FULL, "wait", "assoc", "group", "billing"),
        ("AssocMaxJobsLimit", C.QUOTA_FULL, "wait", "assoc", "user", "jobs"),
        ("AssocMaxSubmitJobLimit", C.QUOTA_FULL, "wait", "assoc", "user", "submit"),
        ("AssociationJobLimit", C.QUOTA_FULL, "wait", "assoc", "group", "jobs"),
        ("QOSMaxJobsPerUserLimit", C.QUOTA_FULL, "wait", "qos", "user", "jobs"),
        ("QOSMaxSubmitJobPerUserLimit", C.QUOTA_FULL, "wait", "qos", "user", "submit"),
        ("QOSMaxCpuPerUserLimit", C.QUOTA_FULL, "wait", "qos", "user", "cpu"),
        ("QOSMaxGRESPerUser", C.QUOTA_FULL, "wait", "qos", "user", "gpu"),
        ("QOSMaxNodePerUserLimit", C.QUOTA_FULL, "wait", "qos", "user", "node"),
        ("QOSMaxMemoryPerUser", C.QUOTA_FULL, "wait", "qos", "user", "memory"),
        ("MaxGRESPerAccount", C.QUOTA_FULL, "wait", "qos", "account", "gpu"),
        ("MaxJobsPerAccount", C.QUOTA_FULL, "wait", "qos", "account", "jobs"),
        ("QOSGrpJobsLimit", C.QUOTA_FULL, "wait", "qos", "group", "jobs"),
        ("QOSGrpCPUMinutesLimit", C.QUOTA_FULL, "wait", "qos", "minutes", "cpu"),
        ("AssocGrpCPURunMinutesLimit", C.QUOTA_FULL, "wait", "assoc", "run minutes", "cpu"),
        ("QOSGrpWallLimit", C.QUOTA_FULL, "wait", "qos", "minutes", "wall minutes"),
        ("QOSMaxGRESPerJob", C.NEVER_FITS, "never", "qos", "job", "gpu"),
        ("AssocMaxCpuPerJobLimit", C.NEVER_FITS, "never", "assoc", "job", "cpu"),
        ("AssocMaxCpuPerNode", C.NEVER_FITS, "never", "assoc", "node", "cpu"),
        ("QOSMaxGRESPerNode", C.NEVER_FITS, "never", "qos", "node", "gpu"),
        ("QOSMaxWallDurationPerJobLimit", C.NEVER_FITS, "never", "qos", "wall", "wall"),
        ("AssocMaxWallDurationPerJobLimit", C.NEVER_FITS, "never", "assoc", "wall", "wall"),
        ("QOSMaxCpuMinutesPerJobLimit", C.NEVER_FITS, "never", "qos", "minutes per job", "cpu"),
        ("AssocMaxGRESMinutesPerJob", C.NEVER_FITS, "never", "assoc", "minutes per job", "gpu"),
        ("QOSMinGRES", C.NEVER_FITS, "never", "qos", "minimum", "gpu"),
        ("QOSMinCpuNotSatisfied", C.NEVER_FITS, "never", "qos", "minimum", "cpu"),
        ("AssociationTimeLimit", C.NEVER_FITS, "never", "assoc", "wall", "wall"),
        ("QOSTimeLimit", C.NEVER_FITS, "never", "qos", "wall", "wall"),
    ],
)  # fmt: skip
def test_limits(word, cause, verdict, over, per, resource):
    reason = classify(word)
    assert (reason.cause, reason.verdict, reason.over, reason.per, reason.resource) == (
        cause,
        verdict,
        over,
        per,
        resource,
    )


@pytest.mark.parametrize(
    ("word", "cause", "verdict"),
    [
        ("Resources", C.ALL_BUSY, "wait"), ("Priority", C.BEHIND_IN_LINE, "wait"), ("None", C.UNKNOWN, "unknown"),
        ("(null)", C.UNKNOWN, "unknown"), ("", C.UNKNOWN, "unknown"), (None, C.UNKNOWN, "unknown"),
        ("NodeDown", C.NODE_OUT, "act"), ("FrontEndDown", C.CONTROL_PLANE, "act"), ("SystemFailure", C.CONTROL_PLANE, "act"),
        ("Cleaning", C.HOLDING_AFTER_END, "wait"), ("Prolog", C.STARTED_NOT_RUNNING, "wait"),
        ("JobLaunchFailure", C.STARTED_NOT_RUNNING, "act"), ("PartitionDown", C.CLOSED_BY_ADMIN, "act"),
        ("PartitionInactive", C.CLOSED_BY_ADMIN, "act"), ("BadConstraints", C.NEVER_FITS, "never"),
        ("MaxMemPerLimit", C.NEVER_FITS, "never"), ("DeadLine", C.NEVER_FITS, "never"),
        ("PartitionTimeLimit", C.NEVER_FITS, "never"), ("PartitionNodeLimit", C.NEVER_FITS, "never"),
        ("QOSUsageThreshold", C.QUOTA_FULL, "wait"), ("InactiveLimit", C.GATED, "act"), ("Licenses", C.GATED, "wait"),
        ("BurstBufferResources", C.GATED, "wait"), ("BeginTime", C.GATED, "wait"), ("JobArrayTaskLimit", C.GATED, "act"),
        ("DependencyNeverSatisfied", C.GATED, "never"), ("InvalidAccount", C.BAD_REQUEST, "act"),
        ("InvalidQOS", C.BAD_REQUEST, "act"), ("QOSNotAllowed", C.BAD_REQUEST, "act"),
        ("AccountNotAllowed", C.BAD_REQUEST, "act"), ("ReservationDeleted", C.BAD_REQUEST, "act"),
        ("JobHoldMaxRequeue", C.HELD, "act"), ("JobHeldUser", C.HELD, "act"), ("JobHeldAdmin", C.HELD, "act"),
        ("job requeued in held state", C.HELD, "act"), ("job_requeued_in_held_state", C.HELD, "act"),
        ("user env retrieval failed requeued held", C.HELD, "act"),
        ("(Job's QOS not permitted to use this partition (key allows key not normal))", C.BAD_REQUEST, "act"),
        ("Job's account not permitted to use this partition (a allows b not c)", C.BAD_REQUEST, "act"),
        ("RaisedSignal:11(Segmentation fault)", C.CRASH_LOOP, "act"),
    ],
)  # fmt: skip
def test_words_and_texts(word, cause, verdict):
    reason = classify(word)
    assert (reason.cause, reason.verdict) == (cause, verdict)


def test_an_exact_word_wins_over_the_words_that_it_begins_with():
    # a peer answered DependencyNeverSatisfied by a rule for `Dependency`
    assert classify("Dependency").verdict == "wait"
    assert classify("DependencyNeverSatisfied").verdict == "never"
    assert classify("ReservationDeleted").topic != classify("Resources").topic


@pytest.mark.parametrize("word", ["QOSMagicLimit", "SomethingNew", "QOSGrpGRESX", "Priority!", "資源"])
def test_an_unknown_word_stays_itself(word):
    reason = classify(word)
    assert (reason.cause, reason.tail) == (Cause.UNKNOWN, word)


def test_every_word_has_an_explainer():
    assert {classify(word).topic for word in WORDS} <= set(TOPICS)


@given(st.text(max_size=80))
def test_any_text_is_classified(text):
    assert classify(text).topic in TOPICS
