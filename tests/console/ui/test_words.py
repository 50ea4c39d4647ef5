"""Words and figures as cells: number, line breaks, moments."""

from datetime import UTC, datetime, timedelta

import pytest
from ui_fake import NOW, ahead

from connectors.text import use_language
from console.ui.figures import gpu_words, start_range
from console.ui.lines import width_of, wrap


@pytest.mark.parametrize(
    ("value", "says"),
    [(1.0, "1 GPU"), (0.0, "0 GPUs"), (0.5, "0.5 GPUs"), (1024.0, "1,024 GPUs"), (None, "? GPUs"), (21.0, "21 GPUs")],
)
def test_gpus_in_their_number(value, says):
    assert gpu_words(value) == says


def test_a_sum_with_unknown_parts_is_no_single_gpu():
    assert gpu_words(1.0, "+?") == "1+? GPUs"


@pytest.mark.parametrize(
    ("p50", "p90", "says"),
    [
        (ahead(minutes=18), ahead(minutes=93), "21:25/22:40"),
        (ahead(minutes=18), ahead(minutes=18), "21:25"),
        (ahead(minutes=18), None, "21:25"),
        (ahead(minutes=18), ahead(hours=5), "21:25/Wed 02:07"),
        (ahead(hours=5), ahead(hours=6), "Wed 02:07/03:07"),
        (ahead(hours=5), ahead(hours=30), "Wed 02:07"),
        (ahead(days=8), ahead(days=8, hours=1), "12-09 21:07"),
        (None, None, "?"),
    ],
)
def test_starts_name_the_day_that_is_not_today(p50, p90, says):
    assert start_range(p50, p90, NOW, UTC) == says


def test_a_start_fits_its_column_in_both_languages():
    from console.ui.jobs import COLUMNS

    room = {column.key: column.most for column in COLUMNS}
    ends = [ahead(hours=step) for step in range(0, 24 * 9, 5)]
    try:
        for language in ("en", "zh_CN"):
            use_language(language)
            for at, p50 in enumerate(ends):
                for p90 in ends[at:]:
                    assert width_of(start_range(p50, p90, NOW, UTC)) <= room["start"]
                assert width_of(start_range(p50, None, NOW, UTC)) <= room["start50"]
    finally:
        use_language("en")
    assert width_of(start_range(datetime(2027, 9, 1, tzinfo=UTC), None, NOW - timedelta(days=1), UTC)) <= 11


def test_chinese_breaks_between_its_characters_and_not_before_its_punctuation():
    text = "账户 robot 还剩 16 个 GPU，本作业要 32 个；等待管理员处理。"
    for width in range(8, 60):
        lines = wrap(text, width)
        assert all(width_of(line) <= width for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert not any(line.startswith(tuple("，。；")) for line in lines), lines
    assert len(wrap(text, 20)) == 3, "lines are filled, not broken at blanks alone"


def test_words_break_at_blanks_and_long_ones_anywhere():
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("a " + "x" * 20, 8) == ["a", "x" * 8, "x" * 8, "xxxx"]
    assert wrap("", 8) == [""]
    assert wrap("two  blanks", 20) == ["two  blanks"]


def test_a_joined_emoji_is_not_torn():
    assert "👩‍💻" in wrap("go 👩‍💻 go", 4)
