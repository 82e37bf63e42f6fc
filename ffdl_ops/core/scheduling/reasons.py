"""Decisions put into words, in this one place: for logs, pages, the command line and the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ffdl_ops.core.scheduling.decisions import Holder, Preempt, Wait, WaitCause

__all__ = ["cause_words", "holders_words", "preemption_words", "wait_words"]

_NAMED = 5
_CAUSES = {
    WaitCause.QUOTA: "a limit of its tenant, or of its user",
    WaitCause.FAIR_SHARE: "it would have to borrow, and nobody has idle quota left",
    WaitCause.CAPACITY: "the nodes have not enough free, even in sum",
    WaitCause.FRAGMENTATION: "enough is free in sum, but not where the gang could use it",
    WaitCause.RESERVATION: "what it could take is kept for another gang",
    WaitCause.ORDER: "another gang of its tenant goes first",
    WaitCause.CLOSED: "the administrator lets nothing start",
}


def wait_words(wait: Wait) -> str:
    """Why a gang waits, in a sentence or two: what is needed, what is free, who holds the rest, and how soon it may start."""
    return " ".join(filter(None, (_cause(wait), _advice(wait.numbers), _earliest(wait.earliest))))


def cause_words(cause: WaitCause) -> str:
    """What a cause means, whatever the job."""
    return _CAUSES[cause]


def preemption_words(preempt: Preempt) -> str:
    """Why a job must stop."""
    whose = f"job {preempt.for_job} of tenant {preempt.for_tenant}"
    why = {
        "borrowed": f"It holds more than its tenant's quota, and {whose} needs what is its own.",
        "priority": f"{whose[0].upper()}{whose[1:]} is more important.",
        "order": f"{whose[0].upper()}{whose[1:]} goes first by the scheduling policy.",
    }
    return f"{why[preempt.why]} The job saves, and goes back into the queue; it goes on from its checkpoint."


def holders_words(holders: Sequence[Holder]) -> str:
    """Who holds how much, and until when. A holder without a job id is one whose job the reader may not know."""
    if not holders:
        return ""
    named = []
    for one in holders[:_NAMED]:
        facts = [f"{one.gpus} GPU"] if one.gpus else []
        facts += [one.user] if one.user else []
        facts += [f"until about {_moment(one.until)}"] if one.until else []
        named.append(f"{one.job_id or 'a job'} of {one.tenant}" + (f" ({', '.join(facts)})" if facts else ""))
    more = f" and {len(holders) - _NAMED} more" if len(holders) > _NAMED else ""
    return ", ".join(named) + more


def _cause(wait: Wait) -> str:
    numbers, held = wait.numbers, holders_words(wait.holders)
    by = f" Held by: {held}." if held else ""
    match wait.cause:
        case WaitCause.CLOSED:
            return f"Nothing starts at present: {numbers.get('closed')}."
        case WaitCause.ORDER:
            return f"{wait.holders[0].job_id} of the same tenant goes first and waits for what this job would take."
        case WaitCause.RESERVATION:
            return f"{_needed(numbers)}; what is free is kept for: {held}."
        case WaitCause.QUOTA if numbers.get("no_tenant"):
            return (
                f"Tenant {numbers['tenant']} is not in the tenants' configuration (any more), so it may hold nothing."
            )
        case WaitCause.QUOTA:
            whose = f"user {numbers['user']}" if numbers.get("user") else f"tenant {numbers.get('tenant')}"
            return f"Quota of {whose}: {_limited(numbers)}.{by}"
        case WaitCause.FAIR_SHARE:
            used = f"The quota of tenant {numbers.get('tenant')} is used up, and little is left to borrow"
            return f"{used}: {_limited(numbers)}.{by}"
        case _:
            return f"{_needed(numbers)}; {_free(wait)}.{by}"


def _limited(numbers: Mapping[str, Any]) -> str:
    facts = (numbers.get("held", 0), numbers.get("limit", 0), numbers.get("needed", 0))
    held, limit, needed = (f"{number:g}" for number in facts)
    return f"{held} of {limit} {numbers.get('limited')} are held and {needed} are needed"


def _needed(numbers: Mapping[str, Any]) -> str:
    count = numbers.get("learners", 1)
    size = f"{numbers.get('cpu_millis_each', 0) / 1000:g} CPU, {numbers.get('memory_bytes_each', 0) / 2**30:.3g} GiB"
    if numbers.get("gpus_each"):
        size = f"{numbers['gpus_each']} GPU, {size}"
    return f"Room for {count} learner{'s' if count != 1 else ''} of {size} each is needed"


def _free(wait: Wait) -> str:
    numbers = wait.numbers
    where = " or ".join(numbers.get("kinds", ())) or "such"
    if not numbers.get("nodes"):
        return f"no node for it ({where}) is ready"
    gpus = f"{numbers.get('free_gpus', 0)} GPUs are free on " if numbers.get("gpus_each") else "there are "
    text = f"{gpus}{numbers['nodes']} {where} node{'s' if numbers['nodes'] != 1 else ''}"
    if wait.cause is WaitCause.FRAGMENTATION:
        near = {"node": "on one node (or whole nodes)", "rack": "in one rack", "cluster": "in pieces of a learner"}
        text += f", enough in sum but not {near.get(numbers.get('level', ''), 'close enough together')}"
    return text


def _advice(numbers: Mapping[str, Any]) -> str:
    """What is out of the ordinary, and what would help."""
    words = []
    if numbers.get("excluded_nodes"):
        words.append(f"Excluded for this job: {', '.join(numbers['excluded_nodes'])}.")
    if numbers.get("closed_nodes"):
        words.append(f"Not ready or closed: {', '.join(numbers['closed_nodes'])}.")
    if numbers.get("never") and numbers.get("limited"):
        words.append("It needs more than the limit itself: it never starts unless an admin raises it.")
    elif numbers.get("never"):
        words.append("Even idle, these nodes could not hold it: it waits for another node, or never starts.")
    if numbers.get("no_tenant"):
        words.append("An admin adds the tenant there, or the job is halted.")
    return " ".join(words)


def _earliest(moment: datetime | None) -> str:
    return "" if moment is None else f"Not before {_moment(moment)}, by what is known of their ends."


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
