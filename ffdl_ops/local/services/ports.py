"""Where the embedded services listen: configured, overridden by the environment, refused when somebody else is there."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from ffdl_ops.core.errors import UserError
from ffdl_ops.core.platform import Ports

__all__ = ["SERVICES", "check_port_free", "listens", "service_ports"]

SERVICES = ("airflow", "mlflow", "s3", "minicluster")
"""The services with a port, by the names of `ports` in platform.yaml."""


def service_ports(configured: Ports, environment: Mapping[str, str] = os.environ) -> dict[str, int]:
    """Each service's port: FFDL_PORT_<SERVICE>, else the configuration's.

    :raises UserError: for what is no port, and for two services on the same.
    """
    ports: dict[str, int] = {}
    for service in SERVICES:
        port = _port(configured, service, environment)
        other = next((name for name, taken in ports.items() if taken == port), None)
        if other is not None:
            raise UserError(f"{other} and {service} have the same port, {port}; {_remedy(service)}")
        ports[service] = port
    return ports


def check_port_free(port: int, service: str) -> None:
    """Refuse a port that somebody else listens on.

    :raises UserError: naming port, service and the setting to change.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            raise UserError(f"Port {port} for {service} is reserved to root; {_remedy(service)}") from None
        except OSError:
            raise UserError(
                f"Port {port}, which {service} needs, is taken by another program. Stop that program, or "
                f"{_remedy(service)}"
            ) from None


def listens(port: int) -> bool:
    """Whether somebody accepts connections on a port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _port(configured: Ports, service: str, environment: Mapping[str, str]) -> int:
    variable = f"FFDL_PORT_{service.upper()}"
    text = environment.get(variable)
    if not text:
        return int(getattr(configured, service))
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise UserError(f"{variable} is {text!r}; it must be a port, a number from 1 to 65535.")
    return int(text)


def _remedy(service: str) -> str:
    return f"choose another port: `ports.{service}` in config/platform.yaml, or FFDL_PORT_{service.upper()}=<port>."
