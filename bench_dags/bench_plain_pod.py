"""The baseline of `ffdl bench startup`: the probe program in one plain KubernetesPodOperator, nothing of ours around it."""

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG

from ffdl_ops.adapters.settings import Settings

_settings = Settings.load()

with DAG(dag_id="bench_plain_pod", schedule=None, catchup=False, tags=["ffdl", "benchmark"], doc_md=__doc__):
    KubernetesPodOperator(
        task_id="pod",
        namespace=f"ffdl-{next(iter(_settings.tenants)).name}",
        image=_settings.platform.images.pytorch,
        cmds=["python3", "-m", "ffdl_ops.pod.workloads.probe"],
        config_file=_settings.kubeconfig,
        on_finish_action="delete_pod",
        do_xcom_push=False,
    )
