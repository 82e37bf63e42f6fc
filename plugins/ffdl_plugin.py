"""Registers with Airflow what the platform adds to its UI; no logic of its own."""

from airflow.plugins_manager import AirflowPlugin

from ffdl_ops.pipeline.links import PAGES, MlflowRunLink, WaitLink
from ffdl_ops.pipeline.listeners import ConfListener
from ffdl_ops.pipeline.pages import Pages

__all__ = ["FfdlPlugin"]


class FfdlPlugin(AirflowPlugin):
    """The platform's part of Airflow's UI."""

    name = "ffdl"
    operator_extra_links = [MlflowRunLink(), WaitLink()]
    fastapi_apps = [{"app": Pages(), "url_prefix": PAGES, "name": "FfDL"}]
    listeners = [ConfListener()]
