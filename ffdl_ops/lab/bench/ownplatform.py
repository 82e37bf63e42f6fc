"""An embedded platform of a benchmark's own: another home, other ports, tenants made for the measurement; gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ffdl_ops.adapters.ports import free_ports
from ffdl_ops.adapters.settings import Settings, config_dir
from ffdl_ops.core.errors import TemporaryError

__all__ = ["V100_NODES", "configuration", "own_platform"]

V100_NODES = {"v100-a": 4, "v100-b": 4}
_SERVICES = ("airflow", "mlflow", "s3", "minicluster")
_OTHERS = ("FFDL_", "AIRFLOW_", "MLFLOW_", "KUBECONFIG")
_LIMIT_S = 900.0


def configuration(tenants: Sequence[str], quota: int, ports: Sequence[int]) -> dict[str, dict[str, Any]]:
    """The configuration files by name: two nodes of four V100s, tenants of one cohort with equal quotas."""
    nodes = [
        {"name": name, "gpus": {"type": "V100", "count": gpus}, "labels": {"ffdl.dev/rack": "rack-1"}}
        for name, gpus in V100_NODES.items()
    ]
    return {
        "nodes.yaml": {"defaults": {"cpus": 32, "memory": "128Gi", "pods": 110}, "nodes": nodes},
        "tenants.yaml": {
            "tenants": [{"name": name, "gpu_quota": {"V100": quota}, "cohort": "storm"} for name in tenants],
        },
        "platform.yaml": {"gpu_types": ["V100"], "ports": dict(zip(_SERVICES, ports, strict=True))},
    }


@contextmanager
def own_platform(tenants: Sequence[str], quota: int, directory: str | None = None) -> Iterator[Settings]:
    """A platform that is up for the block.

    :param quota: V100s of each tenant.
    :param directory: where its home is made; the system's temporary directory by default.
    """
    import yaml

    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ffdl-bench-", dir=directory) as name:
        home = Path(name)
        home.chmod(0o711)  # PostgreSQL and the pods have users of their own
        config = home / "config"
        config.mkdir()
        shutil.copy(config_dir() / "images.yaml", config / "images.yaml")
        for file, content in configuration(tenants, quota, free_ports(len(_SERVICES))).items():
            (config / file).write_text(yaml.safe_dump(content), encoding="utf-8")
        try:
            _ffdl("up", home, config)
            yield Settings.load(home, config)
        finally:
            _ffdl("down", home, config)


def _ffdl(command: str, home: Path, config: Path) -> None:
    """Run `ffdl` there, with nothing of another platform in its environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
    program = [sys.executable, "-c", "from ffdl_ops.cli.main import main; main()", command]
    done = subprocess.run(
        program, env={**kept, "FFDL_HOME": str(home), "FFDL_CONFIG_DIR": str(config)},
        capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise TemporaryError(f"The benchmark's platform: `ffdl {command}` failed.\n{done.stderr.strip()[-2000:]}")
