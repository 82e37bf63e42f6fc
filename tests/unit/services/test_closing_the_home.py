"""What the platform keeps is closed to the users that tenants' pods run as."""

from __future__ import annotations

import stat
from pathlib import Path

from ffdl_ops.local.services.secrets import close_home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_logs_records_and_services_are_closed_and_the_way_to_the_cluster_is_open(tmp_path: Path) -> None:
    """A learner could read the other tenants' task logs, and with them what their learners had printed."""
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True, mode=0o755)
    (home / "minicluster").mkdir(mode=0o711)
    close_home(home)
    close_home(home)
    assert {name: mode(home / name) for name in ("airflow", "logs", "run", "s3")} == dict.fromkeys(
        ("airflow", "logs", "run", "s3"), 0o700
    )
    assert mode(home) == 0o711 and mode(home / "minicluster") == 0o711
