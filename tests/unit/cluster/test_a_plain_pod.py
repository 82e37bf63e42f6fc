"""The pod that jobs are compared with: the same program and resources, the same data in the same place, nothing else."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.adapters.cluster.gang import GangSpec, learner_template
from ffdl_ops.adapters.cluster.plain import plain_pod
from ffdl_ops.adapters.settings import Settings
from ffdl_ops.adapters.storage.datasets import Dataset
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import Tenants

PLATFORM = PlatformConfig.load({})
DATA = Dataset("b", "data", "key1", 10, 1)
GIVEN = {
    "name": "x", "framework": {"name": "pytorch", "command": "exec python3 -c 'print($HOME)'"}, "cpus": 2, "memory": "3Gi",
    "gpus": 1, "gpu_type": "V100", "env": {"OMP_NUM_THREADS": "2"},
}  # fmt: skip
DAG_FILE = Path(__file__).parents[3] / "bench_dags" / "bench_plain_pod.py"


def plain(data: Dataset | None = DATA, **more: Any) -> Any:
    return plain_pod(PLATFORM, load_manifest({**GIVEN, **more}), "vision", "run-1", "b", data, 60)


def job() -> Any:
    spec = GangSpec("job-1", "vision", load_manifest(GIVEN), 1, 1, 20_000, {}, data_dir="/ffdl/cache/key1")
    return learner_template(spec, PLATFORM)


def environment(container: Any) -> dict[str, str]:
    return {one.name: one.value for one in container.env}


def test_it_takes_what_a_jobs_learner_takes() -> None:
    [base], [learner] = plain().spec.containers, job().spec.containers
    assert (base.image, base.resources) == (learner.image, learner.resources)
    assert plain().spec.node_selector == {"ffdl.dev/gpu-type": "V100"}
    assert plain().spec.tolerations == job().spec.tolerations
    assert base.command == ["/bin/sh", "-c", "exec python3 -c 'print($$HOME)'"]


def test_its_data_lies_where_a_jobs_does_and_it_saves_nothing() -> None:
    [base], [learner] = plain().spec.containers, job().spec.containers
    assert environment(base)["DATA_DIR"] == environment(learner)["DATA_DIR"] == "/ffdl/cache/key1"
    assert "CHECKPOINT_DIR" not in environment(base)

    def cache(pod: Any, container: Any) -> Any:
        mount = next(one for one in container.volume_mounts if one.name == "cache")
        return mount, next(one for one in pod.spec.volumes if one.name == "cache")

    assert cache(plain(), base) == cache(job(), learner)
    assert [one.name for one in plain().spec.init_containers] == ["prepare"]
    stage = json.loads(environment(plain().spec.init_containers[0])["FFDL_STAGE_SPEC"])
    assert stage["data"] == {"bucket": "b", "prefix": "data", "key": "key1", "cache_dir": "/ffdl/cache"}
    assert stage["attempt"] == 0 and not stage["checkpoint"]["enabled"]
    assert plain(data=None).spec.init_containers is None
    assert plain(data=None, gpus=0, gpu_type=None).spec.node_selector is None


def test_nothing_of_it_outlives_its_limit_or_its_pod() -> None:
    pod = plain()
    assert pod.spec.active_deadline_seconds == 60 and pod.metadata.labels["ffdl.dev/bench-run"] == "run-1"
    assert next(one for one in pod.spec.volumes if one.name == "job").empty_dir is not None


@pytest.fixture(scope="module")
def dag_file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The DAG's module, and settings with one tenant."""
    spec = importlib.util.spec_from_file_location("bench_plain_pod_under_test", DAG_FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SETTINGS = Settings(Path("/nowhere"), Path("/nowhere"), PLATFORM, Tenants.load({"tenants": [{"name": "vision"}]}), {})


def checked(dag_file: Any, **given: Any) -> Any:
    defaults = {name: param.value for name, param in dag_file.PARAMS.items()}
    return dag_file._checked(SETTINGS, {**defaults, "tenant": "vision", **given})


def test_without_parameters_it_runs_the_probe(dag_file: Any) -> None:
    manifest = checked(dag_file)
    assert manifest.framework.command == "python3 -m ffdl_ops.pod.workloads.probe" and not manifest.data_stores
    assert PLATFORM.image_for(manifest) == PLATFORM.images.pytorch


def test_its_fields_are_those_of_a_manifest(dag_file: Any) -> None:
    manifest = checked(
        dag_file, image="a/b:1", command="c", cpus="500m", gpus=2, gpu_type="V100", data="b-1/x", env="A=1=2\n\nB="
    )
    assert (manifest.cpu_millis, manifest.gpus, dict(manifest.env)) == (500, 2, {"A": "1=2", "B": ""})
    assert manifest.data_stores[0].training_data.container == "b-1/x" and PLATFORM.image_for(manifest) == "a/b:1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tenant": "nobody"}, "tenant: there is no tenant 'nobody'; there are vision"),
        ({"limit_seconds": 0}, "limit_seconds: 0 must be a whole number of 1 to 86400"),
        ({"env": "A"}, "env: 'A' is not of the form NAME=value"),
        ({"env": "PATH=/x"}, "env.PATH"),
        ({"command": ""}, "command: "),
        ({"image": "UPPER x"}, "image: "),
        ({"memory": "8"}, "memory: .*needs a unit"),
        ({"cpus": "many"}, "cpus: "),
        ({"gpus": 65}, "gpus: .*0 to 64"),
        ({"gpu_type": "V100"}, "gpu_type: .*gpus is 0"),
        ({"data": "../x"}, "data: "),
        ({"cpus": "-1", "memory": "8"}, "cpus.*memory|memory.*cpus"),
    ],
)
def test_what_can_not_be_run_is_refused_by_the_fields_name(dag_file: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        checked(dag_file, **given)


def test_a_refused_run_is_not_tried_again_and_makes_no_pod(dag_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    operator = dag_file.PlainPod(task_id="refused")
    params = {**{name: param.value for name, param in dag_file.PARAMS.items()}, "tenant": "nobody"}
    context: Any = {"params": params, "run_id": "r", "dag_run": SimpleNamespace()}
    with pytest.raises(AirflowFailException, match="Refused: tenant"):
        operator.execute(context)
