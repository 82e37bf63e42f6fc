"""`plan`: what the form or the manifest asks for is checked against the tenant, the cluster and the store, then kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.observe import node_view
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.form import in_the_forms_words, manifest_from_form
from ffdl_ops.core.jobs.manifest import ManifestErrors
from ffdl_ops.core.jobs.problems import Problem
from ffdl_ops.core.jobs.states import TERMINAL, JobState
from ffdl_ops.core.tenancy.checks import check_job, check_queue
from ffdl_ops.core.tenancy.defaults import with_defaults
from ffdl_ops.pipeline.isolation import check_isolation
from ffdl_ops.pipeline.services import Services, now
from ffdl_ops.pipeline.stage import StageOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.core.jobs.manifest import Manifest
    from ffdl_ops.core.tenancy.checks import ClusterShape

__all__ = ["PlanOperator"]


class PlanOperator(StageOperator):
    """Validates the request and stores the job. Refusals come at once, all together, each with field and limit.

    :param tenant: whose DAG it is in.
    """

    stage = "plan"
    ui_color = "#dbe9ff"

    def _job(self, context: Context, svc: Services, job_id: str) -> JobRecord:
        """The job's record, stored now if this is its first run."""
        job = svc.ledger.job(job_id)
        if job is not None:
            return super()._job(context, svc, job_id) or job
        manifest = self._checked(context, svc)
        return self._store(context, svc, job_id, manifest)

    def work(self, context: Context, svc: Services, job: JobRecord) -> dict[str, Any]:
        """Check what the job names outside the platform, and open its MLflow run."""
        from ffdl_ops.adapters.tracking.runs import JobFacts
        from ffdl_ops.core.jobs.manifest import load_manifest

        manifest = load_manifest(job.manifest)
        self._check_store(svc, job, manifest, dict(context["params"]))
        facts = JobFacts(
            job_id=job.job_id,
            tenant=job.tenant,
            name=job.name,
            user=job.user,
            framework=job.framework,
            model=manifest.example or manifest.name,
            gpu_type=job.gpu_type,
            learners=job.learners,
            gpus=job.gpus,
            dag_id=job.dag_id,
            run_id=job.run_id,
            params=_params(manifest),
        )
        run = svc.tracker.ensure_run(facts)
        svc.ledger.set_facts(job.job_id, mlflow_run_id=run.run_id, mlflow_experiment_id=run.experiment_id)
        if job.state not in TERMINAL:
            svc.advance(job.job_id, JobState.PENDING, "planned")
        job = svc.ledger.job(job.job_id) or job
        self._push_links(context, job)
        self.log.info("Job %s (%s) of tenant %s is planned.", job.job_id, job.name, job.tenant)
        return {"job_id": job.job_id, "mlflow_run_id": run.run_id}

    def _checked(self, context: Context, svc: Services) -> Manifest:
        """The request as a manifest that this tenant and this cluster can run.

        :raises UserError: naming every problem: field, value, limit, what to do.
        """
        params = {name: value for name, value in dict(context["params"]).items() if value is not None}
        try:
            manifest = manifest_from_form(params)
        except ManifestErrors as errors:
            raise UserError(str(errors)) from None
        if manifest.has_inline_credentials:
            raise UserError(
                "data_stores[0].connection: a run's configuration is visible in Airflow, so it can't hold a password. "
                "Use `ffdl submit`, which stores it as a secret first, or name one by `connection: {secret: NAME}`; "
                "and change this password, since it has been shown."
            )
        check_isolation(svc, self.tenant)
        tenant = svc.tenant(self.tenant)
        manifest = with_defaults(manifest, tenant, svc.platform)
        most = svc.settings.tenants.most_gpus(tenant.name)
        problems = check_job(manifest, tenant, cluster_shape(svc), svc.platform, most_gpus=most)
        user = _user(context["dag_run"], params, svc.settings.airflow_login[0])
        queued = [one.request.user for one in svc.ledger.queue() if one.request.tenant == tenant.name]
        problems += check_queue(tenant, len(queued), user, queued.count(user))
        if problems:
            raise UserError("; ".join(str(problem) for problem in in_the_forms_words(problems, params)))
        return manifest

    def _store(self, context: Context, svc: Services, job_id: str, manifest: Manifest) -> JobRecord:
        from ffdl_ops.adapters.ledger import NewJob

        run = context["dag_run"]
        params = dict(context["params"])
        new = NewJob(
            job_id=job_id,
            tenant=self.tenant,
            dag_id=run.dag_id,
            run_id=run.run_id,
            user=_user(run, params, svc.settings.airflow_login[0]),
            name=manifest.name,
            manifest=manifest.to_dict(),
            framework=manifest.framework.name,
            learners=manifest.learners_max,
            gpus=manifest.gpus,
            gpu_type=manifest.gpu_type,
            priority=manifest.priority,
        )
        return svc.ledger.create_job(new, now())

    def _check_store(self, svc: Services, job: JobRecord, manifest: Manifest, form: Mapping[str, Any]) -> None:
        """Check bucket, credentials, data and code with real calls, before any GPU is held."""
        from ffdl_ops.adapters.storage.datasets import dataset_of

        tenant = svc.tenant(job.tenant)
        store = svc.store(job.tenant)
        store.check_bucket(tenant.bucket)
        if manifest.code:
            self._check_code(store, tenant.bucket, manifest.code)
        source = manifest.data_stores[0] if manifest.data_stores else None
        if source is None:
            return
        data_store = self._data_store(svc, job, manifest)
        if source.training_results is not None:
            with _about("data_stores[0].training_results.container", form):
                data_store.check_bucket(source.training_results.container.partition("/")[0])
        if source.training_data is not None:
            bucket, _, prefix = source.training_data.container.partition("/")
            with _about("data_stores[0].training_data.container", form):
                data_store.check_bucket(bucket)
                data = dataset_of(data_store, bucket, prefix)
            facts = {"bucket": bucket, "prefix": prefix, "bytes": data.bytes, "files": data.files}
            svc.ledger.set_facts(job.job_id, dataset_key=data.key, dataset={**(job.dataset or {}), **facts})
            self.log.info("Data: s3://%s/%s, %d files, %.1f MiB.", bucket, prefix, data.files, data.bytes / 2**20)

    @staticmethod
    def _check_code(store: Any, bucket: str, uri: str) -> None:
        own = f"s3://{bucket}/"
        if not uri.startswith(own):
            raise UserError(
                f"code: {uri} is not in the tenant's own bucket; upload it to {own}code/ (`ffdl submit --code`)."
            )
        if not store.exists(bucket, uri.removeprefix(own)):
            raise UserError(f"code: there is no object {uri}; upload it first (`ffdl submit --code DIR` does).")

    @staticmethod
    def _data_store(svc: Services, job: JobRecord, manifest: Manifest) -> Any:
        """The store that the manifest's data is in: the tenant's, or the one its `connection` names."""
        from ffdl_ops.adapters.cluster.secrets import connection_secret
        from ffdl_ops.adapters.storage.config import StoreConfig
        from ffdl_ops.adapters.storage.store import ObjectStore

        connection = manifest.data_stores[0].connection
        if connection is None or not connection.secret:
            return svc.store(job.tenant)
        values = connection_secret(svc.cluster, job.tenant, connection.secret)
        if values is None or "FFDL_DATA_S3_ACCESS_KEY_ID" not in values:
            raise UserError(
                f"data_stores[0].connection.secret: tenant {job.tenant} has no data-store secret named "
                f"{connection.secret!r}; `ffdl submit` makes one from a manifest's credentials."
            )
        return ObjectStore(
            StoreConfig(
                endpoint_url=values["FFDL_DATA_S3_ENDPOINT"] or None,
                access_key=values["FFDL_DATA_S3_ACCESS_KEY_ID"],
                secret_key=values["FFDL_DATA_S3_SECRET_ACCESS_KEY"],
                region=values["FFDL_DATA_S3_REGION"],
            )
        )

    def _told(self, error: Exception, message: str) -> str:
        """A refusal is marked as one: `ffdl submit --follow` finds it in the log by this word."""
        return f"Refused: {message}" if isinstance(error, UserError) else message


@contextmanager
def _about(path: str, form: Mapping[str, Any]) -> Iterator[None]:
    """Put the field's name before what is wrong with it, in the words of the form if there was one."""
    try:
        yield
    except UserError as error:
        [named] = in_the_forms_words([Problem(path, "", str(error))], form)
        raise type(error)(str(named)) from None


def _user(run: Any, params: Mapping[str, Any], platform_account: str) -> str:
    """Who submitted: Airflow's user; for the platform's own account (the command line's), whom it names."""
    triggered_by = getattr(run, "triggering_user_name", None)
    named = params.get("submitted_by")
    return str(named if named and triggered_by in (None, platform_account) else triggered_by or "unknown")


def cluster_shape(svc: Services) -> ClusterShape:
    """What the cluster's ready nodes could give if they were all free."""
    from ffdl_ops.core.tenancy.checks import ClusterShape, NodeSize

    gpus: dict[str, int] = {}
    largest: dict[str, NodeSize] = {}
    nodes: dict[str, list[NodeSize]] = {}
    for node in (node_view(item) for item in svc.cluster.nodes()):
        kind = node.gpu_type or ""
        gpus[kind] = gpus.get(kind, 0) + node.gpus
        size = NodeSize(gpus=node.gpus, cpu_millis=node.cpu_millis, memory_bytes=node.memory_bytes)
        nodes.setdefault(kind, []).append(size)
        if kind not in largest or size.gpus > largest[kind].gpus:
            largest[kind] = size
    return ClusterShape(gpus_by_type=gpus, largest_node=largest, nodes=nodes)


def _params(manifest: Manifest) -> dict[str, str]:
    """The manifest's facts as MLflow parameters: few, and the same for every attempt."""
    return {
        "framework": manifest.framework.name,
        "learners": f"{manifest.learners_min}-{manifest.learners_max}",
        "gpus": str(manifest.gpus),
        "gpu_type": manifest.gpu_type or "",
        "cpus": f"{manifest.cpu_millis / 1000:g}",
        "memory_bytes": str(manifest.memory_bytes),
        "command": manifest.framework.command[:500],
    }
