"""A program in one plain KubernetesPodOperator, nothing of ours around it: what jobs are compared with.

By default the probe program, as `ffdl bench startup` runs it. The overhead benchmark gives each run its own image, command,
resources and data. Its fields mean what a training job's mean; the task checks them again and refuses, with the field's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException

from ffdl_ops.adapters.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.core.jobs.manifest import Manifest

_settings = Settings.load()
_TEXT = ["null", "string"]
_PROBE = "python3 -m ffdl_ops.pod.workloads.probe"
_LONGEST_S = 86_400

PARAMS = {
    "tenant": Param(next(iter(_settings.tenants)).name, type="string", description="In whose namespace, with whose data."),
    "image": Param(None, type=_TEXT, description="Empty for the platform's image for PyTorch."),
    "command": Param(_PROBE, type="string", format="multiline", description="The shell command that the container runs."),
    "cpus": Param("0.5", type=["string", "number"], description="Like 0.5, 4 or 500m."),
    "memory": Param("2Gi", type="string", description="Like 8Gb, 512MiB or 16Gi."),
    "gpus": Param(0, type="integer", minimum=0, maximum=64, description="Whole GPUs."),
    "gpu_type": Param(None, type=_TEXT, description="Only on nodes of this type. Empty for any."),
    "data": Param(None, type=_TEXT, description="bucket/prefix of the data; its objects are in $DATA_DIR."),
    "code": Param(None, type=_TEXT, description="The program as a zip archive in the tenant's bucket."),
    "example": Param(None, type=_TEXT, description="A ready-made training instead of code."),
    "env": Param(None, type=_TEXT, format="multiline", description="Variables of the program, NAME=value, one on a line."),
    "limit_seconds": Param(3600, type="integer", minimum=1, maximum=_LONGEST_S, description="After this it is ended."),
}  # fmt: skip


class PlainPod(KubernetesPodOperator):
    """The operator as it is; what it runs is read from the run's parameters."""

    def execute(self, context: Context) -> Any:
        """Run the pod, or refuse, with all problems at once."""
        from ffdl_ops.adapters.cluster.plain import plain_pod
        from ffdl_ops.core.errors import UserError

        settings, params = Settings.load(), dict(context["params"])
        try:
            manifest = _checked(settings, params)
            tenant = settings.tenants[params["tenant"]]
            self.full_pod_spec = plain_pod(
                settings.platform, manifest, tenant.name, str(context["run_id"])[:63], tenant.bucket,
                _data(settings, manifest, tenant.name), params["limit_seconds"],
            )  # fmt: skip
        except UserError as error:
            raise AirflowFailException(f"Refused: {error}") from None
        self.namespace, self.name = self.full_pod_spec.metadata.namespace, self.full_pod_spec.metadata.name
        return super().execute(context)


def _checked(settings: Settings, params: dict[str, Any]) -> Manifest:
    """The run's parameters as the manifest of a job that would run the same.

    :raises UserError: naming every problem: field, value, limit, what to do.
    """
    from ffdl_ops.core.errors import UserError
    from ffdl_ops.core.jobs.form import in_the_forms_words
    from ffdl_ops.core.jobs.manifest import ManifestErrors, load_manifest

    names = [tenant.name for tenant in settings.tenants]
    if params["tenant"] not in names:
        raise UserError(f"tenant: there is no tenant {params['tenant']!r}; there are {', '.join(names)}")
    limit = params["limit_seconds"]
    if not isinstance(limit, int) or not 1 <= limit <= _LONGEST_S:
        raise UserError(f"limit_seconds: {limit!r} must be a whole number of 1 to {_LONGEST_S}")
    lines = [line for line in str(params["env"] or "").splitlines() if line.strip()]
    wrong = next((line for line in lines if "=" not in line), None)
    if wrong is not None:
        raise UserError(f"env: {wrong[:60]!r} is not of the form NAME=value")
    framework = {"name": "pytorch", "image": params["image"], "command": params["command"]}
    manifest = {name: params[name] for name in ("cpus", "memory", "gpus", "gpu_type", "code", "example")}
    if params["example"]:
        manifest |= {"framework": {name: value for name, value in framework.items() if value and name != "name"}}
    else:
        manifest |= {"framework": {name: value for name, value in framework.items() if value is not None}}
    if params["data"]:
        manifest["data_stores"] = [{"id": "data", "type": "mount_cos", "training_data": {"container": params["data"]}}]
    manifest["env"] = dict(line.split("=", 1) for line in lines)
    try:
        return load_manifest(
            {"name": "plain pod", **{name: value for name, value in manifest.items() if value is not None}}
        )
    except ManifestErrors as errors:
        raise UserError("; ".join(str(one) for one in in_the_forms_words(errors.problems, {}))) from None


def _data(settings: Settings, manifest: Manifest, tenant: str) -> Any:
    from ffdl_ops.adapters.storage.datasets import dataset_of
    from ffdl_ops.adapters.storage.store import ObjectStore

    source = manifest.data_stores[0].training_data if manifest.data_stores else None
    if source is None:
        return None
    bucket, _, prefix = source.container.partition("/")
    return dataset_of(ObjectStore(settings.store_config(tenant)), bucket, prefix)


with DAG(
    dag_id="bench_plain_pod", schedule=None, catchup=False, params=PARAMS, tags=["ffdl", "benchmark"], doc_md=__doc__,
    max_active_runs=1000, max_active_tasks=1000,
):  # fmt: skip
    PlainPod(
        task_id="pod",
        config_file=_settings.kubeconfig,
        on_finish_action="delete_pod",
        do_xcom_push=False,
        log_pod_spec_on_failure=False,
    )
