"""The page beside a run that waits: why, who holds it, until when.

Whoever is not logged in is sent to the log-in. A job that does not exist and one that the reader may not see get the same
answer, so that nobody learns which job ids there are.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from ffdl_ops.adapters.ledger.errors import LedgerUnavailable
from ffdl_ops.core.showing import one_line, plain, show_duration, show_time
from ffdl_ops.ui.story import REFRESH_S, WaitStory, read_story

if TYPE_CHECKING:
    from ffdl_ops.ui.host import Host

__all__ = ["build_app"]

_SHOWN = 50
"""How many intervals the page shows, the newest; the JSON has all."""


def build_app(host: Host) -> FastAPI:
    """The pages, to be mounted where links to them lead.

    :param host: the server that they are shown in.
    """
    app = FastAPI(title="FfDL", openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/jobs/{job_id}/wait")
    async def wait(request: Request, job_id: str) -> Response:
        may_read = await host.reader(request)
        if may_read is None:
            return _not_logged_in(host, request)
        try:
            ledger = await run_in_threadpool(host.ledger)
            found = await run_in_threadpool(read_story, ledger, job_id, may_read, datetime.now(UTC))
        except LedgerUnavailable:
            return _notice(request, 503, "The platform's record can't be reached at present.", refresh_s=REFRESH_S)
        if found is None:
            return _notice(request, 404, "There is no such job, or you may not see it.")
        job, story = found
        if _wants_json(request):
            return JSONResponse(plain(story), headers=_headers())
        return _page("wait.html", 200, **_facts(story), run_page=host.run_page(request, job.dag_id, job.run_id))

    return app


def _wants_json(request: Request) -> bool:
    return request.query_params.get("format") == "json"


def _not_logged_in(host: Host, request: Request) -> Response:
    """A browser is sent to the log-in; a program, or one whose token was refused, is told."""
    browses = "text/html" in request.headers.get("accept", "") and "authorization" not in request.headers
    if _wants_json(request) or not browses:
        return _notice(request, 401, "Log in to Airflow first.")
    return RedirectResponse(host.login_page(request), status_code=303, headers=_headers())


def _notice(request: Request, status: int, words: str, *, refresh_s: int | None = None) -> Response:
    if _wants_json(request):
        return JSONResponse({"detail": words}, status_code=status, headers=_headers())
    return _page("notice.html", status, words=words, refresh_s=refresh_s)


def _page(template: str, status: int, **facts: Any) -> Response:
    nonce = secrets.token_urlsafe(16)
    text = _templates().get_template(template).render(nonce=nonce, **facts)
    return HTMLResponse(text, status_code=status, headers=_headers(nonce))


def _headers(nonce: str | None = None) -> Mapping[str, str]:
    """Nothing is kept, and nothing runs or is loaded: a second wall behind the templates' escaping."""
    style = f"style-src 'nonce-{nonce}'; " if nonce else ""
    return {
        "Cache-Control": "no-store",
        "Content-Security-Policy": f"default-src 'none'; {style}img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'",
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
    }


def _facts(story: WaitStory) -> dict[str, Any]:
    """What the template needs besides the story: the bars, and only so many intervals."""
    bars = [
        {"cause": cause, "seconds": seconds, "percent": round(100 * seconds / story.waited_s) if story.waited_s else 0}
        for cause, seconds in sorted(story.seconds_by_cause.items(), key=lambda one: -one[1])
    ]
    return {
        "story": story,
        "title": f"Why {story.job_id} waits" if story.phase == "waits" else f"How {story.job_id} waited",
        "bars": bars,
        "shown": story.intervals[::-1][:_SHOWN],
        "left_out": max(len(story.intervals) - _SHOWN, 0),
        "refresh_s": story.refresh_s,
    }


@functools.cache
def _templates() -> Environment:
    # Every template is escaped, whatever its name; nothing in one may be marked as safe.
    env = Environment(
        loader=PackageLoader("ffdl_ops.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"line": one_line, "duration": show_duration, "time": show_time, "cause": _spaced}
    return env


def _spaced(cause: str) -> str:
    return cause.replace("_", " ")
