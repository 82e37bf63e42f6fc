"""A run's configuration is made fit for its tasks when it starts, by the listener that the plugin registers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.pipeline.listeners import ConfListener

PLUGIN = Path(__file__).parents[3] / "plugins" / "ffdl_plugin.py"


def started(conf: Any) -> Any:
    """The configuration of a run once it has started."""
    run = SimpleNamespace(run_id="r", dag_id="train__t", conf=conf)
    ConfListener().on_dag_run_running(run)  # type: ignore[arg-type]
    return run.conf


def test_what_no_task_could_be_given_is_replaced() -> None:
    assert started({"example": "probe", "whatever": 10**30})["whatever"] == "not passed on: a number beyond 64 bits"


@pytest.mark.parametrize("conf", [None, {}, {"example": "probe", "learners": 2}])
def test_any_other_configuration_is_the_same_object(conf: Any) -> None:
    assert started(conf) is conf


def test_the_plugin_registers_it() -> None:
    spec = importlib.util.spec_from_file_location("ffdl_plugin_of_test", PLUGIN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [type(one) for one in module.FfdlPlugin.listeners] == [ConfListener]
