"""Which port each service gets, and what is refused."""

from __future__ import annotations

import socket

import pytest

from ffdl_ops.core.errors import UserError
from ffdl_ops.core.platform import Ports
from ffdl_ops.local.services.ports import check_port_free, listens, service_ports

CONFIGURED = Ports(airflow=8080, mlflow=5000, s3=9000, minicluster=6443)


def test_the_environment_wins_over_the_configuration() -> None:
    ports = service_ports(CONFIGURED, {"FFDL_PORT_S3": "9001", "FFDL_PORT_MLFLOW": ""})
    assert ports == {"airflow": 8080, "mlflow": 5000, "s3": 9001, "minicluster": 6443}


@pytest.mark.parametrize("text", ["0", "65536", "-1", "http", "80 80", "٣٤٥٦", "8e3"])
def test_what_is_no_port_is_refused_with_the_variables_name(text: str) -> None:
    with pytest.raises(UserError, match="FFDL_PORT_AIRFLOW"):
        service_ports(CONFIGURED, {"FFDL_PORT_AIRFLOW": text})


def test_two_services_on_one_port_are_refused() -> None:
    with pytest.raises(UserError, match="airflow and s3 have the same port, 8080"):
        service_ports(CONFIGURED, {"FFDL_PORT_S3": "8080"})


def test_a_taken_port_is_refused_naming_port_service_and_both_settings() -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        assert listens(port)
        with pytest.raises(UserError) as refused:
            check_port_free(port, "mlflow")
    for word in (str(port), "mlflow", "ports.mlflow", "FFDL_PORT_MLFLOW"):
        assert word in str(refused.value)
    check_port_free(port, "mlflow")
    assert not listens(port)
