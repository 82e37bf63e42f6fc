"""Names that several parts derive on their own are the same everywhere and legal where they are used."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ffdl_ops.core.jobs import ids

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
tenants = st.from_regex(ids.TENANT_NAME, fullmatch=True).filter(lambda name: not name.endswith("-"))


@given(st.text(max_size=250), st.text(max_size=250))
def test_a_job_id_is_stable_and_a_legal_name(dag: str, run: str) -> None:
    assert ids.job_id(dag, run) == ids.job_id(dag, run)
    assert re.fullmatch(r"job-[0-9a-f]{10}", ids.job_id(dag, run))
    assert DNS_LABEL.fullmatch(ids.pod_name(ids.job_id(dag, run), 999, 63))


def test_runs_of_two_dags_are_two_jobs() -> None:
    assert ids.job_id("train__a", "run") != ids.job_id("train__b", "run")


@given(tenants, tenants)
def test_no_two_tenants_share_a_name(one: str, other: str) -> None:
    assert DNS_LABEL.fullmatch(ids.namespace(one))
    for derive in (ids.namespace, ids.dag_id, ids.connection_id):
        assert (derive(one) == derive(other)) == (one == other)
