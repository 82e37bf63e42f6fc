"""docker-compose.yaml: complete in itself, pinned, on loopback alone, and without a secret in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    loaded = yaml.safe_load((root / "docker-compose.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = compose["services"]
    assert isinstance(found, dict)
    return found


def named(value: Any) -> list[str]:
    """The names in a list or mapping of them."""
    return list(value or [])


def test_every_part_of_the_platform_is_there(services: dict[str, dict[str, Any]]) -> None:
    airflow = {f"airflow-{part}" for part in ("api-server", "scheduler", "dag-processor", "triggerer")}
    assert {"postgres", "s3", "mlflow", "k3s", "setup"} | airflow <= set(services)


def test_only_loopback_is_published(services: dict[str, dict[str, Any]]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published
    for port in published:
        assert re.fullmatch(r"127\.0\.0\.1:\$\{FFDL_[A-Z0-9]+_PORT:-\d+\}:\d+", port), port


def test_images_are_pinned_and_name_no_registry(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert re.fullmatch(r"[a-z0-9-]+(/[a-z0-9-]+)?:v?\d+\.\d+[a-z0-9.-]*", service["image"]), name
        assert service["image"].startswith("ffdl/") or "build" not in service


def test_what_is_built_has_its_dockerfile(services: dict[str, dict[str, Any]], root: Path) -> None:
    built = {service["build"]["dockerfile"] for service in services.values() if "build" in service}
    assert built == {str(path.relative_to(root)) for path in root.glob("images/*/Dockerfile")}


def test_the_pods_images_are_the_ones_that_are_built(services: dict[str, dict[str, Any]], root: Path) -> None:
    from ffdl_ops.core.platform import PlatformConfig

    built = {service["image"] for service in services.values() if "build" in service}
    for path in ("config/platform.yaml", "images/compose/platform.yaml"):
        images = PlatformConfig.load((root / path).read_text()).images
        assert {images.pytorch, images.tensorflow, images.helper} <= built, path


def test_the_cluster_of_compose_is_the_one_that_its_configuration_names(
    services: dict[str, dict[str, Any]], root: Path
) -> None:
    from ffdl_ops.core.platform import PlatformConfig

    platform = PlatformConfig.load((root / "images/compose/platform.yaml").read_text())
    assert platform.profile == "kubernetes"
    assert {volume.kind for volume in (platform.volumes.job, platform.volumes.cache)} == {"persistentVolumeClaim"}
    simulated = services["setup"]["environment"]["FFDL_SIMULATED_GPUS"]
    assert f":-{platform.gpu_types[0]}:" in simulated
    for name, service in services.items():
        if service["image"].startswith("ffdl/airflow"):
            assert "./images/compose/platform.yaml:/opt/ffdl/config/platform.yaml:ro" in service["volumes"], name


def test_every_reference_leads_somewhere(compose: dict[str, Any], services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert set(named(service.get("networks"))) <= set(compose["networks"]), name
        assert set(named(service.get("secrets"))) <= set(compose["secrets"]), name
        assert set(named(service.get("depends_on"))) <= set(services), name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source.startswith("./") or source in compose["volumes"], (name, volume)
    for name, service in services.items():
        for other, how in (service.get("depends_on") or {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], (name, other)


def test_only_k3s_is_privileged(services: dict[str, dict[str, Any]]) -> None:
    assert [name for name, service in services.items() if service.get("privileged")] == ["k3s"]
    for name, service in services.items():
        if name != "k3s" and "profiles" not in service:
            assert "no-new-privileges:true" in service["security_opt"], name
        assert not any("docker.sock" in volume for volume in service.get("volumes", [])), name


def test_learners_reach_neither_databases_nor_mlflow(services: dict[str, dict[str, Any]]) -> None:
    for name in ("postgres", "mlflow"):
        assert named(services[name]["networks"]) == ["control"]
    for name in ("k3s", "s3"):
        assert named(services[name]["networks"]) == ["cluster"]


def test_no_secret_is_written_down(compose: dict[str, Any], services: dict[str, dict[str, Any]]) -> None:
    for service in services.values():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|TOKEN|_KEY|_CONN|_URL$|STORE_URI", key):
                assert str(value).startswith(("/run/secrets/", "http://")), key
            assert not re.search(r"://[^/]*:[^/]*@", str(value)), key
        assert all(path.startswith(".ffdl/compose/") for path in service.get("env_file", []))
    assert all(secret["file"].startswith(".ffdl/compose/") for secret in compose["secrets"].values())


def test_secrets_are_kept_out_of_git_and_of_images(root: Path) -> None:
    for file in (".gitignore", ".dockerignore"):
        assert {".ffdl", ".ffdl/"} & set((root / file).read_text().split()), file


def test_what_compose_reads_is_what_the_secrets_script_makes(
    compose: dict[str, Any], services: dict[str, dict[str, Any]], make_secrets: Any, tmp_path: Path
) -> None:
    make_secrets.make(tmp_path, {"team-a": "team-a-data"})
    wanted = {secret["file"] for secret in compose["secrets"].values()}
    wanted |= {path for service in services.values() for path in service.get("env_file", [])}
    assert {Path(path).name for path in wanted} <= {path.name for path in tmp_path.iterdir()}
    address = services["s3"]["networks"]["cluster"]["ipv4_address"]
    assert f"http://{address}:8333" == make_secrets.S3_ENDPOINT


def test_each_part_has_a_database_of_its_own(
    root: Path, services: dict[str, dict[str, Any]], make_secrets: Any
) -> None:
    script = root / "images" / "postgres" / "init-databases.sh"
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    loop = re.search(r"^for name in (.*); do$", script.read_text(), re.MULTILINE)
    assert loop is not None
    assert tuple(loop[1].split()) == make_secrets.DATABASES
    assert {f"{name}_db_password" for name in make_secrets.DATABASES} <= set(services["postgres"]["secrets"])
