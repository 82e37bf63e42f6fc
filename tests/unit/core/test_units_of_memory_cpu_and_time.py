"""Quantities are read as FfDL and Kubernetes mean them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffdl_ops.core.jobs.units import format_memory, normalise_gpu_type, parse_cpu, parse_duration, parse_memory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8Gb", 8 * 10**9),
        ("16GB", 16 * 10**9),
        ("1000MiB", 1000 * 2**20),
        ("512mib", 512 * 2**20),
        ("1 GiB", 2**30),
        ("16Gi", 16 * 2**30),
        ("16384Ki", 2**24),
        ("500M", 500 * 10**6),
        ("100k", 10**5),
        ("1e9", 10**9),
        ("1.5Gi", 3 * 2**29),
        ("1500m", 2),
        (1024, 1024),
        ("0", 0),
    ],
)
def test_memory_is_bytes_and_b_is_a_byte(text: str | int, expected: int) -> None:
    assert parse_memory(text) == expected


@pytest.mark.parametrize(
    "text", ["", "Gi", "8 Gbit", "8g", "8K", "-1Gi", "1e400Gi", "nan", "8Gi8", "1_000Mi", "٣Gi", "9" * 70]
)
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_memory(text)


@given(st.integers(1, 10**6), st.sampled_from(["k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "mb", "GiB"]))
def test_memory_grows_with_its_number(count: int, unit: str) -> None:
    assert parse_memory(f"{count + 1}{unit}") > parse_memory(f"{count}{unit}") > 0
    assert parse_memory(f"{count}{unit}") == count * parse_memory(f"1{unit}")


@given(st.text(max_size=80))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    for parse in (parse_memory, parse_cpu, parse_duration):
        with contextlib.suppress(ValueError):
            assert parse(text) >= 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.5, 500), ("500m", 500), (4, 4000), ("2", 2000), ("250u", 1), ("1.5", 1500), ("3920m", 3920)],
)
def test_cpus_are_thousandths(value: float | str, expected: int) -> None:
    assert parse_cpu(value) == expected


@given(st.integers(1, 10**6))
def test_thousandths_and_decimals_agree(millis: int) -> None:
    assert parse_cpu(f"{millis}m") == parse_cpu(str(millis / 1000)) == millis


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("45m", 2700), ("12h", 43200), ("1h30m", 5400), ("1d 2h", 93600), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "12", "h", "30m1h", "1h1h", "-1h", "1w", "1h!"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("nvidia-TeslaV100", "V100"),
        ("nvidia-TeslaK80", "K80"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("v100", "V100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA GeForce RTX 3090", "RTX3090"),
        ("TPUv4", "TPUV4"),
    ],
)
def test_a_gpu_type_is_its_model(written: str, expected: str) -> None:
    assert normalise_gpu_type(written) == expected


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=40))
def test_a_gpu_type_read_twice_is_the_same(written: str) -> None:
    once = normalise_gpu_type(written)
    assert normalise_gpu_type(once) == once


def test_memory_is_shown_in_round_figures() -> None:
    assert [format_memory(count) for count in (2**31, 3 * 2**29, 500 * 2**20, 12)] == [
        "2 GiB",
        "1.5 GiB",
        "500 MiB",
        "12 bytes",
    ]
