"""Registers with Airflow what the platform adds to its UI; no logic of its own."""

from airflow.plugins_manager import AirflowPlugin

from ffdl_ops.pipeline.links import MlflowRunLink

__all__ = ["FfdlPlugin"]


class FfdlPlugin(AirflowPlugin):
    """The platform's part of Airflow's UI."""

    name = "ffdl"
    operator_extra_links = [MlflowRunLink()]
