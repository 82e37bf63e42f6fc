"""A stage that fails because its job is being halted makes no failed job of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from ffdl_ops.adapters.ledger import Refused
from ffdl_ops.pipeline.operators.admit import AdmitOperator


@pytest.mark.parametrize(("who", "recorded"), [("ann", []), (None, ["failed"])])
def test_a_refusal_of_the_ledger_counts_as_a_failure_only_if_nobody_has_asked_for_a_halt(
    who: str | None, recorded: list[str]
) -> None:
    """The ledger hears of a halt before Airflow does: a stage that starts in between is refused its place in the queue."""
    outcomes: list[str] = []
    ledger = SimpleNamespace(
        job=lambda job_id: SimpleNamespace(halt_requested_by=who),
        record_outcome=lambda job_id, outcome, failure, now: outcomes.append(outcome),
        stage_ended=lambda *given: True,
    )
    context: Any = {"ti": SimpleNamespace(try_number=1, max_tries=3)}
    svc: Any = SimpleNamespace(ledger=ledger)
    with pytest.raises(AirflowFailException):
        AdmitOperator(task_id="admit", tenant="t")._failed(context, svc, "job-1", Refused("is being halted"))
    assert outcomes == recorded
