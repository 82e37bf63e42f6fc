"""The platform's own pages inside Airflow's API server: who asks, and what they may read, is Airflow's to say."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping
    from typing import Any

    from fastapi import FastAPI, Request

    from ffdl_ops.adapters.ledger import Ledger
    from ffdl_ops.ui.host import MayRead

    Message = MutableMapping[str, Any]

__all__ = ["AirflowHost", "Pages"]


class AirflowHost:
    """Airflow's API server as the pages see it."""

    def ledger(self) -> Ledger:
        """This process's ledger."""
        from ffdl_ops.pipeline.services import services

        return services().ledger

    async def reader(self, request: Request) -> MayRead | None:
        """Which DAGs' runs the logged-in person may read; ``None`` without a log-in, or with one that has run out."""
        from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
        from fastapi import HTTPException

        try:
            user = await get_user(request, None, await bearer_scheme(request))
        except HTTPException:
            return None
        return lambda dag_id: _may_read(user, dag_id)

    def login_page(self, request: Request) -> str:
        """Airflow's log-in, which leads back to this page."""
        return f"{_root(request)}/api/v2/auth/login?next={quote(str(request.url), safe='')}"

    def run_page(self, request: Request, dag_id: str, run_id: str) -> str:
        """A run's page in Airflow."""
        return f"{_root(request)}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


class Pages:
    """The pages as an ASGI application that is built when it is first asked for.

    Plugins are loaded by every process of Airflow, also by those that never serve a page, so this costs none of them more
    than a class.
    """

    def __init__(self) -> None:
        self._app: FastAPI | None = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one request (called by the API server)."""
        if self._app is None:
            from ffdl_ops.ui.waits import build_app

            self._app = build_app(AirflowHost())
        await self._app(scope, receive, send)


def _may_read(user: Any, dag_id: str) -> bool:
    """As Airflow's own page of a run decides it."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.models.dag import DagModel

    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


def _root(request: Request) -> str:
    """The path that Airflow itself is served under; empty at the root."""
    return str(request.scope.get("app_root_path", "")).rstrip("/")
