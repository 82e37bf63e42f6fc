"""Brings an Airflow to what the platform needs before its components start: tables, tenants' roles, people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["install"]

# What a tenant's person needs besides the DAG itself, which the DAG's `access_control` gives.
_PERMISSIONS = (
    ("can_read", "Website"),
    ("can_read", "DAG Runs"),
    ("can_read", "Task Instances"),
    ("can_read", "Task Logs"),
    ("can_read", "XComs"),
    ("can_read", "DAG Code"),
    ("can_read", "DAG Versions"),
    ("can_read", "View Menus"),
    # The page of DAGs asks for all of these at once, and shows nothing when one is refused.
    ("can_read", "HITL Detail"),
    ("can_read", "DAG Warnings"),
    ("can_read", "DAG Dependencies"),
    ("can_read", "Assets"),
    ("can_read", "Pools"),
    ("can_read", "Plugins"),
    ("menu_access", "DAGs"),
    ("menu_access", "Documentation"),
    ("can_read", "My Profile"),
    ("can_edit", "My Profile"),
    ("can_read", "My Password"),
    ("can_edit", "My Password"),
    ("can_create", "DAG Runs"),
    ("can_edit", "DAG Runs"),
    ("can_edit", "Task Instances"),
)


def install(users: Mapping[str, tuple[str, str]]) -> None:
    """Make Airflow's tables, or bring them up to date, and the users with their roles. May be repeated.

    A role has to be there before the DAG that names it is read: Airflow does not take such a DAG otherwise.

    :param users: name → role and password; the role "Admin" is Airflow's own.
    """
    from airflow.cli import cli_parser

    arguments = cli_parser.get_parser().parse_args(["db", "migrate"])
    arguments.func(arguments)
    # The permissions that Airflow itself defines are brought up to date by whoever creates the application with this.
    os.environ["AIRFLOW__FAB__UPDATE_FAB_PERMS"] = "True"
    from airflow.providers.fab.www.app import create_app

    application: Any = create_app(enable_plugins=False)
    with application.app_context():
        manager = application.appbuilder.sm
        _make_roles(manager, sorted({role for role, _ in users.values()} - {"Admin"}))
        for name, (role, password) in users.items():
            _make_user(manager, name, role, password)


def _make_roles(manager: Any, roles: Iterable[str]) -> None:
    permissions = [manager.create_permission(action, resource) for action, resource in _PERMISSIONS]
    for name in roles:
        role = manager.find_role(name) or manager.add_role(name)
        for permission in permissions:
            manager.add_permission_to_role(role, permission)


def _make_user(manager: Any, name: str, role: str, password: str) -> None:
    known = manager.find_user(username=name)
    if known is None:
        manager.add_user(name, name, "FfDL", f"{name}@example.invalid", manager.find_role(role), password=password)
    else:
        manager.reset_password(known.id, password)
