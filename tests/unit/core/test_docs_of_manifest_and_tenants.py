"""The pages on manifests and tenants name every field, and their examples are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ffdl_ops.core.failures.budgets import DEFAULT_BUDGETS
from ffdl_ops.core.jobs.crosschecks import MOST_RESTARTS
from ffdl_ops.core.jobs.examples import EXAMPLES
from ffdl_ops.core.jobs.fields import Section
from ffdl_ops.core.jobs.manifest import Manifest, load_manifest
from ffdl_ops.core.jobs.metrics import EvaluationMetrics
from ffdl_ops.core.jobs.sections import Checkpoint, Connection, DataStore, Framework, Monitor, Preflight
from ffdl_ops.core.tenancy.tenants import Tenant, Tenants

DOCS = Path(__file__).resolve().parents[3] / "docs"
MANIFEST, TENANTS = (DOCS / "manifest.md").read_text(), (DOCS / "tenants.md").read_text()


def examples(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)


@pytest.mark.parametrize("text", examples(MANIFEST))
def test_the_pages_manifests_are_valid(text: str) -> None:
    load_manifest(text)


def test_the_pages_tenants_are_valid() -> None:
    assert [len(Tenants.load(text)) for text in examples(TENANTS)] == [2]


@pytest.mark.parametrize(
    ("page", "model"),
    [
        (MANIFEST, model)
        for model in (Manifest, Framework, DataStore, Connection, EvaluationMetrics, Checkpoint, Monitor, Preflight)
    ]
    + [(TENANTS, Tenant)],
)
def test_the_page_names_every_field(page: str, model: type[Section]) -> None:
    names = [field.alias or name for name, field in model.model_fields.items()]
    assert [name for name in names if not re.search(rf"[`.{{]{name}[`.:\[]", page)] == []


def test_the_page_names_every_class_with_its_restarts_and_every_example() -> None:
    for cls, budget in DEFAULT_BUDGETS.items():
        assert re.search(rf"\| `{cls}` \|.*\| {budget} \| {MOST_RESTARTS[cls]} \|", MANIFEST), cls
    assert [name for name in EXAMPLES if f"`{name}`" not in MANIFEST] == []
