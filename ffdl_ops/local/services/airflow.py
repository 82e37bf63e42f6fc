"""Airflow's components, each a process of its own, under the FAB auth manager."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.local.services.process import ServiceFailed

__all__ = ["COMPONENTS", "command", "healthy", "prepare"]

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
_LOCAL_SETTINGS = "from ffdl_ops.pipeline.prewarm import warm\n\nwarm()\n"
_USERS = """
import json, sys
from airflow.providers.fab.www.app import create_app
wanted = json.load(sys.stdin)
with create_app(enable_plugins=False).app_context():
    from flask import current_app
    manager = current_app.appbuilder.sm
    for role in wanted["roles"]:
        found = manager.find_role(role) or manager.add_role(role)
        for action, resource in wanted["permissions"]:
            permission = manager.create_permission(action, resource)
            manager.add_permission_to_role(found, permission)
    for name, (role, password) in wanted["users"].items():
        user = manager.find_user(username=name)
        if user is None:
            manager.add_user(name, name, "FfDL", f"{name}@example.invalid", manager.find_role(role), password=password)
        else:
            manager.reset_password(user.id, password)
"""
# What a tenant's person needs besides the DAG itself (which `access_control` gives).
_PERMISSIONS = (
    ("can_read", "Website"),
    ("can_read", "DAG Runs"),
    ("can_read", "Task Instances"),
    ("can_read", "Task Logs"),
    ("can_read", "XComs"),
    ("can_read", "DAG Code"),
    ("can_read", "DAG Versions"),
    ("can_read", "View Menus"),
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


def command(component: str) -> list[str]:
    """The command that runs a component."""
    return [sys.executable, "-m", "airflow", component]


def prepare(environment: Mapping[str, str], tenants: Tenants, passwords: Mapping[str, str], log: Path) -> None:
    """Bring Airflow's database up to date; make roles and users; let its processes import what tasks need."""
    home = Path(environment["AIRFLOW_HOME"])
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "airflow_local_settings.py").write_text(_LOCAL_SETTINGS)
    _run(environment, log, "airflow db migrate", [sys.executable, "-m", "airflow", "db", "migrate"])
    _make_users(environment, tenants, passwords, log)


def healthy(port: int) -> bool:
    """Whether the API server answers and says that every component works."""
    import json

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/monitor/health", timeout=5) as answer:
        health: dict[str, Any] = json.load(answer)
    return all(part and part.get("status") == "healthy" for part in health.values())


def _make_users(environment: Mapping[str, str], tenants: Tenants, passwords: Mapping[str, str], log: Path) -> None:
    import json

    roles = {tenant.name: f"tenant_{tenant.name.replace('-', '_')}" for tenant in tenants}
    users = {"admin": ("Admin", passwords["admin"])}
    users |= {f"{name}-user": (role, passwords[f"{name}-user"]) for name, role in roles.items()}
    wanted = {"roles": sorted(roles.values()), "permissions": _PERMISSIONS, "users": users}
    _run(environment, log, "making Airflow's users", [sys.executable, "-c", _USERS], text=json.dumps(wanted))


def _run(environment: Mapping[str, str], log: Path, what: str, argv: list[str], text: str | None = None) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        done = subprocess.run(
            argv, env=dict(environment), input=text, text=True, stdout=file, stderr=file, timeout=300, check=False
        )
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise ServiceFailed(f"{what} failed (exit code {done.returncode}). The end of its log:\n{tail}")
