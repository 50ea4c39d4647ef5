"""The change language: what is written is read back, and no text raises anything but BadWords."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.change import (
    CHANGE_TYPES,
    SUPPOSITION_TYPES,
    AddNodes,
    Cancel,
    Drain,
    Hold,
    Release,
    RemoveNodes,
    Requeue,
    Reserve,
    Reshape,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    StopQueue,
    Submit,
    Unreserve,
    UsePolicy,
)  # fmt: skip
from connectors.errors import BadWords
from connectors.language import VERBS, only_changes, read, read_one, write, write_all

NOW = datetime(2026, 11, 30, 19, 0, tzinfo=UTC)

anything = st.text(min_size=1, max_size=20)
word = st.one_of(anything, st.sampled_from([*VERBS, ";", "'", '"', "a b", "drain it; quota x gpus=1", "\\", "x=1;"]))
name = st.text(st.characters(exclude_characters=","), min_size=1, max_size=12)
names = st.lists(name, max_size=3).map(tuple)
host = st.from_regex(r"[a-z]{1,4}[0-9]{0,3}(-[a-z]{1,2}[0-9]{1,2})?", fullmatch=True)
hosts = st.lists(host, min_size=1, max_size=6, unique=True).map(tuple)
figure = st.one_of(st.integers(0, 10**9).map(float), st.floats(0, 1e12))
limit = st.one_of(figure, st.just(float("inf")))
count = st.integers(1, 10_000)
duration = st.one_of(st.integers(0, 10**8).map(float), st.just(float("inf")))
moment = st.datetimes(datetime(2020, 1, 1), datetime(2090, 1, 1)).map(lambda t: t.replace(microsecond=0, tzinfo=UTC))


def read_or_said(words):
    """What was read, or what BadWords said; any other error is the test's failure."""
    try:
        return read(words, now=NOW), ""
    except BadWords as error:
        return [], str(error)


def some(strategy):
    return st.one_of(st.none(), strategy)


def _wanted(*fields):
    return lambda item: any(getattr(item, field) is not None for field in fields)


quotas = st.builds(
    SetQuota, queue=word, gpus=some(limit), nominal=some(limit), limit=some(limit), borrow=some(limit),
    lend=some(limit), weight=some(figure), max_run_s=some(duration), model=some(word),
    resource=st.sampled_from(["gpu", "cpu", "memory"]),
).filter(_wanted("gpus", "nominal", "limit", "borrow", "lend", "weight", "max_run_s"))  # fmt: skip
spans = st.tuples(moment, st.integers(1, 10**7)).map(lambda pair: (pair[0], pair[0] + timedelta(seconds=pair[1])))
reserves = st.builds(
    lambda span, what, **rest: Reserve(start=span[0], end=span[1], **what, **rest),
    spans, st.one_of(hosts.map(lambda nodes: {"nodes": nodes}), figure.map(lambda gpus: {"gpus": gpus})),
    name=word, model=some(word), users=names, accounts=names, flags=names,
)  # fmt: skip
on_jobs = st.sampled_from([Hold, Release, Cancel, Requeue]).flatmap(lambda kind: st.builds(kind, job=word))
on_queues = st.sampled_from([StopQueue, StartQueue]).flatmap(lambda kind: st.builds(kind, queue=word))
changes = st.one_of(
    quotas, reserves, on_jobs, on_queues, st.builds(Unreserve, name=word),
    st.builds(SetPriority, job=word, value=figure), st.builds(Drain, nodes=hosts, reason=word),
    st.builds(Resume, nodes=hosts),
)  # fmt: skip
suppositions = st.one_of(
    st.builds(
        Submit, like=some(word), gpus=some(figure), nodes=some(count), model=some(word),
        run_s=some(st.integers(0, 10**8).map(float)), queue=some(word), user=some(word), count=count,
    ).filter(_wanted("gpus", "like", "nodes")),
    st.builds(
        Reshape, job=word, gpus=some(figure), nodes=some(count), model=some(word), limit_s=some(duration),
        queue=some(word),
    ).filter(_wanted("gpus", "nodes", "model", "limit_s", "queue")),
    st.builds(AddNodes, nodes=count, gpus=figure, model=some(word)),
    st.builds(RemoveNodes, nodes=hosts),
    st.builds(UsePolicy, name=word),
)  # fmt: skip


@given(st.one_of(changes, suppositions))
@settings(max_examples=400)
def test_what_is_written_is_read_back(item) -> None:
    assert read([write(item)], now=NOW) == [item]
    assert read_one(write(item), now=NOW) == item


@given(st.lists(st.one_of(changes, suppositions), min_size=1, max_size=4))
def test_several_are_read_back_in_their_order(items) -> None:
    assert read([write_all(items)], now=NOW) == items
    assert read([write(item) for item in items], now=NOW) == items


def test_the_properties_cover_every_kind() -> None:
    made = {Submit, Reshape, AddNodes, RemoveNodes, UsePolicy, SetQuota, Reserve, Unreserve, Hold, Release, Cancel,
            Requeue, SetPriority, Drain, Resume, StopQueue, StartQueue}  # fmt: skip
    assert made == {*CHANGE_TYPES, *SUPPOSITION_TYPES}
    assert len(VERBS) == len(made)


@given(st.lists(st.one_of(word, st.from_regex(r"[a-z_]{1,8}=.{0,6}"), st.sampled_from(
    ["nodes=0", "count=x", "gpus=nan", "gpus=inf", "gpus=-1", "gpus=१", "hours=1e307", "start=25:00", "end=now",
     "nodes=[1-", "max_run=5", "nodes=" + "9" * 5000, "start=now+999999999999w"])), max_size=8))  # fmt: skip
@settings(max_examples=500)
def test_no_words_raise_anything_but_bad_words(words) -> None:
    for call in (words, [" ".join(words)]):
        items, said = read_or_said(call)
        assert items or said
        assert "\n" not in said


@given(st.sampled_from(VERBS), st.text(max_size=30))
def test_no_text_after_a_verb_raises_anything_but_bad_words(verb, text) -> None:
    for call in ([f"{verb} {text}"], [verb, text]):
        items, said = read_or_said(call)
        assert items or said


@pytest.mark.parametrize(
    ("words", "items"),
    [
        (['quota qos:nlp gpus=48; drain gpu01 reason="bad fan"'],
         [SetQuota(queue="qos:nlp", gpus=48.0), Drain(nodes=("gpu01",), reason="bad fan")]),
        (["quota", "qos:nlp", "gpus=48", "drain", "gpu01", "reason=bad fan"],
         [SetQuota(queue="qos:nlp", gpus=48.0), Drain(nodes=("gpu01",), reason="bad fan")]),
        (["quota", "cq:a", "nominal=48", "limit=64", "borrow=16", "lend=8", "weight=2", "max_run=2d", "model=h100"],
         [SetQuota(queue="cq:a", nominal=48, limit=64, borrow=16, lend=8, weight=2, max_run_s=172800, model="h100")]),
        (["quota", "a", "gpus=unlimited"], [SetQuota(queue="a", gpus=float("inf"))]),
        (["submit", "like=123", "count=3"], [Submit(like="123", count=3)]),
        (["submit", "gpus=16", "model=h100", "hours=12", "queue=team-a", "nodes=2"],
         [Submit(gpus=16, model="h100", run_s=43200, queue="team-a", nodes=2)]),
        (["reshape", "15", "gpus=16", "limit=8h"], [Reshape(job="15", gpus=16, limit_s=28800)]),
        (["add", "nodes=4", "gpus=8", "model=h100"], [AddNodes(nodes=4, gpus=8, model="h100")]),
        (["remove", "gpu[01-02]", "policy", "fifo"], [RemoveNodes(nodes=("gpu01", "gpu02")), UsePolicy(name="fifo")]),
        (["hold", "1", "release", "2", "cancel", "3_[4-5%2]", "requeue", "4", "priority", "5", "value=100"],
         [Hold(job="1"), Release(job="2"), Cancel(job="3_[4-5%2]"), Requeue(job="4"), SetPriority(job="5", value=100)]),
        (["hold 1;release 2;"], [Hold(job="1"), Release(job="2")]),
        (["hold", "1", ";", "hold", "2"], [Hold(job="1"), Hold(job="2")]),
        (["hold", "hold", "hold", "drain"], [Hold(job="hold"), Hold(job="drain")]),
        (["stop", "start", "start", "stop"], [StopQueue(queue="start"), StartQueue(queue="stop")]),
        (["unreserve", "hold me"], [Unreserve(name="hold me")]),
        (["hold '1; hold 2'"], [Hold(job="1; hold 2")]),
        (["hold ';'"], [Hold(job=";")]),
        (['drain gpu01 reason="a \\"b\\"; c"'], [Drain(nodes=("gpu01",), reason='a "b"; c')]),
        (["drain gpu01 reason='it''s'"], [Drain(nodes=("gpu01",), reason="its")]),
        (["drain", "gpu02,gpu01,gpu02", "reason=x=y"], [Drain(nodes=("gpu02", "gpu01"), reason="x=y")]),
        (["hold", "5", "quota qos:a gpus=4; resume gpu01"],
         [Hold(job="5"), SetQuota(queue="qos:a", gpus=4), Resume(nodes=("gpu01",))]),
    ],
)  # fmt: skip
def test_the_forms_of_the_manual(words, items) -> None:
    assert read(words, now=NOW) == items


def test_times_are_read_in_the_zone_of_now_and_the_end_comes_after_the_start() -> None:
    now = NOW.astimezone(timezone(timedelta(hours=8)))  # 03:00 on the next day there
    wanted = Reserve(
        name="night", gpus=32, model="h100", users=("a", "b"), accounts=("x",),
        start=datetime(2026, 12, 1, 12, tzinfo=UTC), end=datetime(2026, 12, 2, 0, tzinfo=UTC),
    )  # fmt: skip
    words = ["gpus=32", "model=h100", "start=20:00", "end=08:00", "users=a,b", "accounts=x"]
    assert read(["reserve", "night", *words], now=now) == [wanted]
    assert read(["reserve", "night", *reversed(words)], now=now) == [wanted]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no change was named"),
        ([";"], "no change was named"),
        (["quota", "qos:a"], "needs one of gpus="),
        (["quota", "qos:a", "gpus=4", "gpus=5"], "names gpus= twice"),
        (["quota", "qos:a", "gpus=four"], "gpus= not a figure: 'four'"),
        (["quota", "qos:a", "max_run=5"], "max_run= not a duration"),
        (["quota", "qos:a", "size=5"], "does not know 'size=5'"),
        (["submit", "gpus=1", "count=0"], "count= not a count: '0'"),
        (["drain", "gpu01"], "needs reason="),
        (["drain", "gpu[02-01]", "reason=x"], "runs backwards"),
        (["hold"], "needs its job"),
        (["hold 'a"], "a quote is not closed"),
        (["frob", "x"], "'frob' is not a change"),
        (["reserve", "n", "gpus=1", "nodes=a", "start=now", "end=now+1h"], "not both"),
        (["reserve", "n", "gpus=1", "start=now+2h", "end=now+1h"], "before it starts"),
    ],
)
def test_what_is_wrong_is_said(words, said) -> None:
    with pytest.raises(BadWords) as caught:
        read(words, now=NOW)
    assert said in str(caught.value)


def test_the_position_of_an_open_quote_is_kept() -> None:
    with pytest.raises(BadWords) as caught:
        read(['drain gpu01 reason="bad'], now=NOW)
    assert caught.value.position == 19


def test_a_supposition_is_never_a_change() -> None:
    assert only_changes([Hold(job="1")]) == [Hold(job="1")]
    with pytest.raises(BadWords, match="`submit` is a supposition"):
        only_changes([Hold(job="1"), Submit(gpus=1)])


def test_exactly_one_is_read() -> None:
    with pytest.raises(BadWords, match="2 were written"):
        read_one("hold 1; hold 2", now=NOW)


@pytest.mark.parametrize("words", ["add nodes=10001 gpus=8 model=a100", "submit gpus=1 hours=1 count=10001"])
def test_more_than_can_be_simulated_is_refused(words: str) -> None:
    with pytest.raises(BadWords, match="from 1 to 10000"):
        read([words], now=NOW)
