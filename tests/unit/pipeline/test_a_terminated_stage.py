"""A stage that is terminated has not succeeded."""

from __future__ import annotations

import pytest

from ffdl_ops.pipeline.operators.admit import AdmitOperator
from ffdl_ops.pipeline.operators.learners import LearnerGangOperator


@pytest.mark.parametrize("kind", [AdmitOperator, LearnerGangOperator])
def test_sigterm_ends_the_stage_with_its_exit_status_and_touches_no_pod(kind: type) -> None:
    """Pitfalls 1 and 4: a terminated worker neither succeeds nor takes the learners with it."""
    operator = kind(task_id="stage", tenant="vision")
    with pytest.raises(SystemExit) as ended:
        operator.on_kill()
    assert ended.value.code == 143


def test_nothing_of_the_gang_operator_is_rendered_as_a_template() -> None:
    """A tenant's text with braces in it stays text."""
    assert tuple(LearnerGangOperator.template_fields) == ()
