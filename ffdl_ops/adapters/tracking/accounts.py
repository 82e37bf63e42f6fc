"""Who may log in to MLflow, and what each of them may see: kept as the configuration says.

A tenant's people read their tenant's experiment; the platform's writer manages all experiments. What an administrator
grants by a role of MLflow's own stays; grants made to one of these users directly are taken back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ffdl_ops.adapters.tracking.rest import MlflowApi
from ffdl_ops.adapters.tracking.runs import Tracker

__all__ = ["Accounts", "Person"]

_DIRECT = "__user_"  # the roles in which MLflow keeps what was granted to one user
_BUDGET_S = 60.0

Grants = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Person:
    """A log-in of a tenant's people."""

    name: str
    password: str
    tenant: str

    def __repr__(self) -> str:
        return f"Person({self.name!r}, tenant={self.tenant!r})"


class Accounts:
    """The accounts of one MLflow server.

    :param uri: the server's address.
    :param login: an administrator's name and password.
    """

    def __init__(self, uri: str, login: tuple[str, str]) -> None:
        self._uri = uri
        self._api = MlflowApi(uri, login=login, budget_s=_BUDGET_S)

    def bring(
        self, writer: tuple[str, str], people: Collection[Person], gone: Collection[str], *, set_passwords: bool
    ) -> None:
        """Bring accounts and grants to what they should be; may be repeated.

        :param writer: name and password of the platform's own account.
        :param gone: names that may have had a log-in, and have none any more.
        :param set_passwords: whether the accounts that are there get their password again.
        :raises TrackingRefused: when MLflow does not take the administrator's log-in.
        """
        known = {user["username"] for user in self._api.get("users/list", {})["users"]}
        for name in known.intersection(gone):
            self._api.send("DELETE", "users/delete", {"username": name})
        for name, password in [writer, *((one.name, one.password) for one in people)]:
            if name not in known:
                self._api.post("users/create", {"username": name, "password": password})
            elif set_passwords:
                self._api.send("PATCH", "users/update-password", {"username": name, "password": password})
        self._grant(writer[0], {("experiment", "*"): "MANAGE"})
        tracker = Tracker(self._uri, login=writer, budget_s=_BUDGET_S)
        for one in people:
            self._grant(one.name, {("experiment", tracker.ensure_experiment(one.tenant)): "READ"})

    def _grant(self, user: str, wanted: Grants) -> None:
        rows = self._api.send("GET", "users/permissions/list", {"username": user}, version="3.0")["permissions"]
        there = {_key(row): str(row["permission"]) for row in rows if str(row["role_name"]).startswith(_DIRECT)}
        for key in [key for key, permission in there.items() if wanted.get(key) != permission]:
            self._change("revoke", user, key, {})
        for key, permission in wanted.items():
            if there.get(key) != permission:
                self._change("grant", user, key, {"permission": permission})

    def _change(self, verb: str, user: str, key: tuple[str, str], more: Mapping[str, str]) -> None:
        body = {"username": user, "resource_type": key[0], "resource_id": key[1], **more}
        self._api.send("POST", f"users/permissions/{verb}", body, version="3.0")


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["resource_type"]), str(row["resource_pattern"])
