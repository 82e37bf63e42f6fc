"""Text that strangers wrote is read within bounds, and every refusal is one clear error."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffdl_ops.core.jobs.manifest import ManifestErrors, load_manifest
from ffdl_ops.core.jobs.problems import Problems
from ffdl_ops.core.jobs.yamltext import MAX_BYTES, load_yaml

BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "anchors"),
        ("name: a\nname: b\n", "line 2: the key 'name' is given twice"),
        ("framework: {name: x, name: y}", "given twice"),
        ("name: !!python/object/apply:os.system ['id']", "tag"),
        ("a: !mine x", "tag"),
        ("a: b\n---\nc: d\n", "second document"),
        ("[" * 5000, "nested more than"),
        ("{a: " * 5000, "nested more than"),
        ("- x\n" * 30_000, "values"),
        ("x" * (MAX_BYTES + 1), "longer than the limit"),
        ("name: [", "no valid YAML"),
        ("name: 'x", "no valid YAML: line"),
        ("name: \x00", "no valid YAML"),
        ("? [a, b]\n: c\n", "a key must be a name"),
        ("n: " + "9" * 6000, "digits"),
        ("n: !!int abc", "no valid YAML"),
        ("\ud800", "no valid YAML"),
    ],
)
def test_it_is_one_clear_error_found_at_once(text: str, words: str) -> None:
    started = time.monotonic()
    with pytest.raises(Problems, match=r".") as refused:
        load_yaml(text)
    assert words in str(refused.value)
    assert len(refused.value.problems) == 1
    assert time.monotonic() - started < 2


@given(st.text(max_size=200))
def test_any_text_is_a_value_or_a_problem(text: str) -> None:
    try:
        load_yaml(text)
    except Problems as refused:
        assert len(refused.problems) == 1


@given(st.text(max_size=200))
def test_any_text_is_a_manifest_or_problems(text: str) -> None:
    with pytest.raises(ManifestErrors):
        load_manifest(text)


@pytest.mark.parametrize("value", ["", "just words", "- a\n- b", "12", "~", [], 3, None, b"\xff\xfe"])
def test_what_is_no_mapping_is_one_error(value: object) -> None:
    with pytest.raises(ManifestErrors) as refused:
        load_manifest(value)  # type: ignore[arg-type]
    assert len(refused.value.problems) == 1


def test_a_number_is_kept_as_it_was_written_and_a_date_stays_text() -> None:
    text = "name: x\nversion: 1.10\nframework: {name: pytorch, version: 2.10, command: c}\ndescription: 2019-01-01\n"
    manifest = load_manifest(text)
    assert manifest.version == "1.10"
    assert manifest.framework.version == "2.10"
    assert manifest.description == "2019-01-01"
