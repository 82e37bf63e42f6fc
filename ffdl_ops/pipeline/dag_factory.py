"""One DAG for each tenant, from the tenants' configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

from ffdl_ops.core.jobs.examples import EXAMPLES
from ffdl_ops.core.jobs.form import FormField, form_fields
from ffdl_ops.core.jobs.ids import dag_id, role
from ffdl_ops.pipeline.operators.admit import AdmitOperator
from ffdl_ops.pipeline.operators.data import FetchDataOperator
from ffdl_ops.pipeline.operators.ending import (
    CheckpointOperator,
    ConcludeOperator,
    ReleaseOperator,
    StoreResultsOperator,
)
from ffdl_ops.pipeline.operators.learners import LearnerGangOperator
from ffdl_ops.pipeline.operators.monitor import MonitorOperator
from ffdl_ops.pipeline.operators.plan import PlanOperator
from ffdl_ops.pipeline.operators.preflight import PreflightOperator
from ffdl_ops.pipeline.stage_docs import DAG_DOC, STAGE_DOCS

if TYPE_CHECKING:
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["build_dag", "build_dags"]

# Airflow's own limits are never the queue: admission is (quota, then placement).
_MAX_ACTIVE_RUNS = 10_000
_RETRIES = 3
_RETRY_DELAY = timedelta(seconds=5)
# `conclude` may start before stages that a partial clear left out; it then comes back until they have run.
_CONCLUDE_RETRIES = 20
_CONCLUDE_DELAY = timedelta(seconds=3)
# Of the tasks that wait for a worker, those go first whose jobs hold GPUs, then those that bring a job to its end. Airflow's own
# order is the other way round: many new jobs would keep the ones that were granted GPUs from starting, or giving them back.
_WEIGHTS = {
    "preflight": 30, "learners": 30, "release": 30, "checkpoint": 10, "store_results": 10, "conclude": 10, "monitor": 5,
    "admit": 2,
}  # fmt: skip


def build_dags(tenants: Iterable[Tenant], gpu_types: Iterable[str]) -> dict[str, DAG]:
    """The DAGs of all tenants, by id.

    :param gpu_types: the GPU types that the form offers.
    """
    kinds = sorted(set(gpu_types))
    dags = (build_dag(tenant, kinds) for tenant in tenants)
    return {dag.dag_id: dag for dag in dags}


def build_dag(tenant: Tenant, gpu_types: list[str]) -> DAG:
    """The DAG of one tenant: its form, its stages, who may see it."""
    name = tenant.name
    dag = DAG(
        dag_id=dag_id(name),
        schedule=None,
        catchup=False,
        params=_params(form_fields(tenant, gpu_types, EXAMPLES)),
        doc_md=DAG_DOC.format(tenant=name),
        tags=["ffdl", "training", name],
        access_control={role(name): {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}},
        max_active_runs=_MAX_ACTIVE_RUNS,
        max_active_tasks=_MAX_ACTIVE_RUNS,
        default_args={"retries": _RETRIES, "retry_delay": _RETRY_DELAY},
        render_template_as_native_obj=False,
    )
    with dag:
        _stages(name)
    return dag


def _stages(tenant: str) -> None:
    """The job's way through its stages. `begin` costs nothing: the scheduler passes it by itself."""
    begin = EmptyOperator(task_id="begin", doc_md=STAGE_DOCS["begin"]).as_setup()
    plan = PlanOperator(task_id="plan", **_common("plan", tenant))
    fetch_data = FetchDataOperator(task_id="fetch_data", **_common("fetch_data", tenant))
    admit = AdmitOperator(task_id="admit", **_common("admit", tenant))
    preflight = PreflightOperator(task_id="preflight", **_common("preflight", tenant))
    learners = LearnerGangOperator(task_id="learners", **_common("learners", tenant))
    monitor = MonitorOperator(task_id="monitor", **_common("monitor", tenant))
    release = ReleaseOperator(task_id="release", **_common("release", tenant)).as_teardown(setups=begin)
    checkpoint = CheckpointOperator(task_id="checkpoint", **_common("checkpoint", tenant)).as_teardown(setups=begin)
    store = StoreResultsOperator(task_id="store_results", **_common("store_results", tenant)).as_teardown(setups=begin)
    conclude = ConcludeOperator(
        task_id="conclude",
        retries=_CONCLUDE_RETRIES,
        retry_delay=_CONCLUDE_DELAY,
        **_common("conclude", tenant),
    ).as_teardown(setups=begin, on_failure_fail_dagrun=True)
    (begin >> plan >> fetch_data >> admit >> preflight >> learners >> release >> checkpoint >> store >> conclude)
    preflight >> monitor >> conclude


def _common(stage: str, tenant: str) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "doc_md": STAGE_DOCS[stage],
        "priority_weight": _WEIGHTS.get(stage, 1),
        "weight_rule": "absolute",
    }


def _params(fields: Mapping[str, FormField]) -> dict[str, Param]:
    """The trigger form: simple typed fields alone, since the UI's form takes no others well."""
    params: dict[str, Param] = {}
    for name, field in fields.items():
        schema: dict[str, Any] = {
            "type": field.type,
            "title": field.title,
            "description": field.description,
            "enum": list(field.enum) if field.enum else None,
            "minimum": field.minimum,
            "maximum": field.maximum,
            "format": field.format,
            "section": field.section,
            "examples": list(field.examples) if field.examples else None,
        }
        params[name] = Param(field.default, **{key: value for key, value in schema.items() if value is not None})
    return params
