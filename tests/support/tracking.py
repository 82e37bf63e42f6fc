"""MLflow's own client, as somebody who has a log-in on a platform."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from ffdl_ops.adapters.settings import Settings

__all__ = ["mlflow_client"]


def mlflow_client(settings: Settings, login: tuple[str, str] | None = None) -> MlflowClient:
    """The client.

    :param login: name and password; the platform's own unless given.
    """
    from mlflow.tracking import MlflowClient

    name, password = login or settings.mlflow_login or ("", "")
    scheme, _, place = settings.mlflow_uri.partition("://")
    return MlflowClient(f"{scheme}://{quote(name)}:{quote(password)}@{place}")
