"""The link from a task to why its job waits, and what the plugin costs those who only load it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from ffdl_ops.core.jobs.ids import job_id
from ffdl_ops.pipeline.links import WaitLink
from ffdl_ops.pipeline.operators.admit import AdmitOperator
from ffdl_ops.pipeline.operators.learners import LearnerGangOperator

TI = SimpleNamespace(dag_id="train__vision", run_id="manual__2026-01-01")
PAGE = f"/ffdl/jobs/{job_id(TI.dag_id, TI.run_id)}/wait"


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("http://127.0.0.1:8080", PAGE),
        ("https://example.org/airflow/", f"/airflow{PAGE}"),
        ("", PAGE),
    ],
)
def test_it_follows_from_the_run_alone_and_names_no_host(base: str, link: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    assert WaitLink().get_link(None, ti_key=TI) == link  # type: ignore[arg-type]
    assert WaitLink.url_of(SimpleNamespace(job_id=job_id(TI.dag_id, TI.run_id))) == link  # type: ignore[arg-type]


@pytest.mark.parametrize("operator", [AdmitOperator, LearnerGangOperator])
def test_the_stages_that_may_wait_offer_it(operator: type):
    assert "Why it waits" in [link.name for link in operator.operator_extra_links]  # type: ignore[attr-defined]


def test_loading_the_plugin_loads_neither_the_page_nor_a_web_framework():
    code = (
        "import sys, ffdl_ops.pipeline.pages as pages; pages.Pages();"
        "assert not {'fastapi', 'jinja2', 'sqlalchemy', 'airflow', 'ffdl_ops.ui'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
