"""Where this installation's configuration and services are.

Configuration is files (`platform.yaml`, `tenants.yaml`), addresses and credentials come from the environment or from
`endpoints.json`, which the embedded platform writes for its owner alone. The environment wins, with one exception:
`KUBECONFIG` and `MLFLOW_TRACKING_URI`, which people set for other programs too, count only where no embedded platform
is; its own are never mixed up with a real cluster of theirs. Cheap to load: Airflow loads it whenever it parses a DAG file.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.ids import connection_id
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import ConfigErrors, Tenants

if TYPE_CHECKING:
    from ffdl_ops.adapters.storage.config import StoreConfig

__all__ = ["Settings", "config_dir", "home_dir"]

_REPOSITORY = Path(__file__).resolve().parents[2]


def home_dir() -> Path:
    """Where the embedded platform keeps its state (`FFDL_HOME`, else `.ffdl` in the repository)."""
    return Path(os.environ.get("FFDL_HOME") or _base() / ".ffdl").resolve()


def config_dir() -> Path:
    """Where the configuration is (`FFDL_CONFIG_DIR`, else `config` in the repository)."""
    return Path(os.environ.get("FFDL_CONFIG_DIR") or _base() / "config").resolve()


def _base() -> Path:
    """The repository; where the package is installed without it, the working directory."""
    return _REPOSITORY if (_REPOSITORY / "config" / "platform.yaml").exists() else Path.cwd()


@dataclass(frozen=True)
class Settings:
    """One installation's settings.

    :param endpoints: what `endpoints.json` says; empty where there is none.
    """

    home: Path
    config: Path
    platform: PlatformConfig
    tenants: Tenants
    endpoints: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, home: Path | None = None, config: Path | None = None) -> Settings:
        """The settings as they are now.

        :param home: the embedded platform's state; by default :func:`home_dir`.
        :param config: the configuration's folder; by default :func:`config_dir`.
        :raises ConfigErrors: when a configuration file is wrong, with every problem.
        """
        home, config = home or home_dir(), config or config_dir()
        return cls(
            home=home,
            config=config,
            platform=_platform(*_stamp(config / "platform.yaml")),
            tenants=_tenants(*_stamp(config / "tenants.yaml")),
            endpoints=_endpoints(*_stamp(home / "endpoints.json")),
        )

    def with_endpoints(self, endpoints: Mapping[str, Any]) -> Settings:
        """The same installation with other endpoints."""
        return dataclasses.replace(self, endpoints=endpoints)

    @property
    def ledger_url(self) -> str:
        """The ledger's database."""
        return self._address("FFDL_LEDGER_URL", "ledger_url")

    @property
    def mlflow_uri(self) -> str:
        """The MLflow server, as programs reach it."""
        known = self.endpoints.get("mlflow", {}).get("url")
        return str(known) if known else self._address("MLFLOW_TRACKING_URI")

    @property
    def mlflow_login(self) -> tuple[str, str] | None:
        """User and password with which the platform writes to MLflow; ``None`` leaves it to MLflow's own variables.

        Those are for another MLflow than the embedded one, as `MLFLOW_TRACKING_URI` is.
        """
        known = self.endpoints.get("mlflow", {})
        return (str(known["username"]), str(known["password"])) if known.get("username") else None

    @property
    def mlflow_url(self) -> str:
        """The MLflow server, as people reach it."""
        return os.environ.get("FFDL_MLFLOW_PUBLIC_URL") or self.mlflow_uri

    @property
    def airflow_url(self) -> str:
        """Airflow's API server."""
        return self._address("FFDL_AIRFLOW_URL", "airflow", "url")

    @property
    def airflow_login(self) -> tuple[str, str]:
        """User and password of the platform's own Airflow account."""
        return (
            self._address("FFDL_AIRFLOW_USERNAME", "airflow", "username"),
            self._address("FFDL_AIRFLOW_PASSWORD", "airflow", "password"),
        )

    @property
    def kubeconfig(self) -> str | None:
        """The kubeconfig file; ``None`` inside a cluster, where the pod's own account is used."""
        known = self.endpoints.get("kubeconfig") or os.environ.get("KUBECONFIG")
        return str(known) if known else None

    def store_config(self, tenant: str) -> StoreConfig:
        """What opens a tenant's object store: its Airflow connection's environment variable, else the endpoints.

        :raises UserError: when there are no credentials for it.
        """
        from ffdl_ops.adapters.storage.config import StoreConfig

        variable = f"AIRFLOW_CONN_{connection_id(tenant).upper()}"
        if os.environ.get(variable):
            value = json.loads(os.environ[variable])
            extra = value.get("extra") or {}
            extra = json.loads(extra) if isinstance(extra, str) else extra
            return StoreConfig(
                endpoint_url=extra.get("endpoint_url"),
                access_key=value["login"],
                secret_key=value["password"],
                region=extra.get("region_name") or "us-east-1",
            )
        known = self.endpoints.get("s3", {}).get("tenants", {}).get(tenant)
        if known is None:
            raise UserError(f"There are no storage credentials for tenant {tenant}: set {variable}, or run `ffdl up`.")
        return StoreConfig(
            endpoint_url=self.endpoints["s3"]["endpoint"],
            access_key=known["access_key"],
            secret_key=known["secret_key"],
        )

    def _address(self, variable: str, *path: str) -> str:
        value: Any = os.environ.get(variable)
        if not value:
            value = self.endpoints
            for part in path:
                value = value.get(part) if isinstance(value, Mapping) else None
        if not value:
            raise UserError(f"{variable} is not set and no platform is up here; run `ffdl up`, or set it.")
        return str(value)


def _stamp(path: Path) -> tuple[Path, int]:
    """A file and its time of change, as the key of what was read from it."""
    try:
        return path, path.stat().st_mtime_ns
    except FileNotFoundError:
        return path, 0


@functools.lru_cache(maxsize=8)
def _platform(path: Path, stamp: int) -> PlatformConfig:
    try:
        return PlatformConfig.load(_text_of(path) if stamp else {})
    except ConfigErrors as errors:
        raise ConfigErrors(errors.problems, str(path)) from None


@functools.lru_cache(maxsize=8)
def _tenants(path: Path, stamp: int) -> Tenants:
    if not stamp:
        raise UserError(f"There is no {path.name} in {path.parent}; set FFDL_CONFIG_DIR to the configuration's folder.")
    try:
        return Tenants.load(_text_of(path))
    except ConfigErrors as errors:
        raise ConfigErrors(errors.problems, str(path)) from None


@functools.lru_cache(maxsize=8)
def _endpoints(path: Path, stamp: int) -> Mapping[str, Any]:
    if not stamp:
        return {}
    try:
        known = json.loads(_text_of(path))
    except ValueError:
        known = None
    if not isinstance(known, dict):
        raise UserError(f"{path} is damaged: it holds no JSON object. Remove it, and `ffdl up` writes it anew.")
    return known


def _text_of(path: Path) -> str:
    """A configuration file's text.

    :raises UserError: when it can't be read as text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text (byte {error.start} is not); save it as UTF-8.") from None
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None
