"""What a Compose deployment needs before Airflow's components start; may be run as often as wanted.

It waits for k3s, makes a kubeconfig that works from Compose's network, gives the node its GPU label (and simulated GPUs,
when asked to), creates buckets, the ledger's tables, tenants' namespaces with their volumes, Airflow's admin, and a role
for each tenant.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

K3S_KUBECONFIG = Path("/opt/k3s/kubeconfig.yaml")
WAIT_S = 180


def wait_for(what: str, ready: Callable[[], Any]) -> Any:
    """What the function returns, once it returns something and raises nothing.

    :raises TimeoutError: after `WAIT_S` seconds, with the last error.
    """
    deadline = time.monotonic() + WAIT_S
    while True:
        last: object = "nothing yet"
        try:
            found = ready()
            if found:
                return found
        except Exception as error:  # Each service fails in its own way while it starts.
            last = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} was not ready within {WAIT_S} s: {last}")
        time.sleep(2)


def write_kubeconfig() -> None:
    """k3s writes its own loopback address; from here its name is its address."""
    text = wait_for("k3s's kubeconfig", K3S_KUBECONFIG.read_text)
    target = Path(os.environ["KUBECONFIG"])
    target.touch(mode=0o600)
    target.write_text(text.replace("https://127.0.0.1:6443", "https://k3s:6443"))


def prepare_node() -> None:
    """Label the node; with ``FFDL_SIMULATED_GPUS=<type>:<count>`` say that it has so many GPUs."""
    from kubernetes import client, config

    config.load_kube_config(os.environ["KUBECONFIG"])
    core = client.CoreV1Api()
    node = wait_for("the k3s node", lambda: core.list_node().items)[0].metadata.name
    kind, _, count = os.environ.get("FFDL_SIMULATED_GPUS", "").partition(":")
    if kind and count:
        core.patch_node(node, {"metadata": {"labels": {"ffdl.dev/gpu-type": kind, "ffdl.dev/gpus": "simulated"}}})
        core.patch_node_status(node, {"status": {"capacity": {"nvidia.com/gpu": count}}})


def create_claims(namespaces: Iterable[str], claims: set[str]) -> None:
    """The volumes that the platform's configuration names, in each tenant's namespace."""
    from kubernetes import client

    core = client.CoreV1Api()
    for namespace in namespaces:
        there = {one.metadata.name for one in core.list_namespaced_persistent_volume_claim(namespace).items}
        for claim in sorted(claims - there):
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
            core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": claim}, "spec": spec})


def create_buckets(buckets: list[str]) -> None:
    """The tenants' buckets, where they are not there yet."""
    import boto3

    s3 = boto3.client(
        "s3",
        endpoint_url=os.environ["FFDL_S3_ENDPOINT"],
        region_name=os.environ["FFDL_S3_REGION"],
        aws_access_key_id=os.environ["FFDL_S3_ACCESS_KEY_ID"],
        aws_secret_access_key=os.environ["FFDL_S3_SECRET_ACCESS_KEY"],
    )
    there = {one["Name"] for one in wait_for("the S3 server", s3.list_buckets)["Buckets"]}
    for bucket in buckets:
        if bucket not in there:
            s3.create_bucket(Bucket=bucket)


def airflow(*arguments: str, may_fail: bool = False) -> None:
    """Run an ``airflow`` command."""
    subprocess.run(["airflow", *arguments], check=not may_fail)


def prepare_airflow(roles: list[str]) -> None:
    """Tables, the admin, the tenants' roles, then the DAGs' permissions (a missing role breaks their sync)."""
    airflow("db", "migrate")
    user, password = os.environ["FFDL_AIRFLOW_USERNAME"], os.environ["FFDL_AIRFLOW_PASSWORD"]
    names = ["--firstname", "Platform", "--lastname", "Admin", "--email", f"{user}@example.org"]
    airflow("users", "create", "--role", "Admin", "--username", user, "--password", password, *names, may_fail=True)
    airflow("roles", "create", *roles, may_fail=True)
    airflow("dags", "reserialize")
    airflow("sync-perm", "--include-dags")


def main() -> int:
    """Everything, in order."""
    from ffdl_ops.adapters.cluster.tenants import apply_tenants
    from ffdl_ops.adapters.ledger import Ledger
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.core.jobs.ids import role

    write_kubeconfig()
    prepare_node()
    settings = Settings.load()
    create_buckets([tenant.bucket for tenant in settings.tenants])
    Ledger(settings.ledger_url).migrate()
    volumes = settings.platform.volumes
    create_claims(apply_tenants(settings).namespaces, {one.claim for one in (volumes.job, volumes.cache) if one.claim})
    prepare_airflow([role(tenant.name) for tenant in settings.tenants])
    return 0


if __name__ == "__main__":
    sys.exit(main())
