"""Whatever bytes a program writes, in whatever pieces, readers get lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ffdl_ops.pod.learner.lines import LONGEST_BYTES, LineSplitter


def split(*chunks: bytes) -> list[str]:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk, 0.0)]
    return lines + splitter.close()


def test_lines_of_several_chunks_come_whole() -> None:
    assert split(b"one\ntw", b"o\n", b"\nfour") == ["one", "two", "", "four"]


def test_a_character_cut_by_a_chunks_end_is_whole() -> None:
    raw = "größe=3\n".encode()
    for cut in range(len(raw)):
        assert split(raw[:cut], raw[cut:]) == ["größe=3"]


def test_what_is_no_utf_8_is_replaced_and_the_rest_kept() -> None:
    assert split(b"a\xff\xfeb\n") == ["a\ufffd\ufffdb"]


def test_windows_line_ends_are_line_ends() -> None:
    assert split(b"one\r\ntwo\r\n") == ["one", "two"]


def test_a_progress_bar_that_ends_leaves_its_last_state() -> None:
    assert split(b"\r 1%\r50%", b"\r100%\n", b"next\n") == ["100%", "next"]


def test_a_progress_bar_that_goes_on_shows_about_once_a_second() -> None:
    splitter = LineSplitter()
    shown = [line for tick in range(100) for line in splitter.feed(b"\r%d%%" % tick, tick / 10)]
    assert 5 <= len(shown) <= 11
    assert shown == sorted(shown, key=lambda text: int(text[:-1]))


def test_text_without_an_end_waits_a_second_of_silence() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"Epoch 1 ...", 0.0) == []
    assert splitter.feed(b" still", 0.9) == []
    assert splitter.due(1.8) == []
    assert splitter.due(1.95) == ["Epoch 1 ... still"]
    assert splitter.due(9.0) == []


def test_a_very_long_line_is_split_between_characters() -> None:
    text = "é" * LONGEST_BYTES
    lines = split(text.encode())
    assert "".join(lines) == text
    assert max(len(line.encode()) for line in lines) <= LONGEST_BYTES


def test_an_endless_line_is_passed_on_before_it_ends() -> None:
    splitter = LineSplitter()
    got = [line for _ in range(40) for line in splitter.feed(b"x" * 10_000, 0.0)]
    assert sum(map(len, got)) > 40 * 10_000 - LONGEST_BYTES - 1


def test_colours_and_control_characters_are_left_out_but_tabs_stay() -> None:
    assert split(b"\x1b[31mred\x1b[0m\tnext\x00\x07\n") == ["red\tnext"]


def test_no_character_makes_a_second_line_of_one() -> None:
    """Else a program could write lines in another learner's name."""
    assert all(len(line.splitlines()) <= 1 for line in split("a\u2028b\u0085c\x0bd\x0ce\x1cf\n".encode()))


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n", exclude_categories=("C", "Z")))), st.data()
)
def test_pieces_do_not_matter(texts: list[str], data: st.DataObject) -> None:
    raw = "".join(f"{text}\n" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    edges = [0, *cuts, len(raw)]
    assert split(*(raw[start:end] for start, end in zip(edges, edges[1:], strict=False))) == texts
