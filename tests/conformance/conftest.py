"""The cluster under test: FFDL_TEST_KUBECONFIG's, or a minicluster of the session's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from ffdl_ops.adapters.cluster.embedded import AdminClient
from tests.conformance.bench import Bench, MiniClusterProcess, eventually, unique


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.conformance)


@pytest.fixture(scope="session")
def own_minicluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniClusterProcess | None]:
    """The session's minicluster, unless another cluster is under test."""
    if os.environ.get("FFDL_TEST_KUBECONFIG"):
        yield None
        return
    server = MiniClusterProcess(tmp_path_factory.mktemp("conformance") / "minicluster")
    server.start("--stop-pods")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def kubeconfig(own_minicluster: MiniClusterProcess | None) -> str:
    """The kubeconfig of the cluster under test."""
    return str(own_minicluster.kubeconfig) if own_minicluster else os.environ["FFDL_TEST_KUBECONFIG"]


@pytest.fixture
def bench(kubeconfig: str) -> Iterator[Bench]:
    """A namespace of the test's own."""
    made = Bench(kubeconfig, unique("conformance"))
    made.core.create_namespace({"metadata": {"name": made.namespace}})
    yield made
    for pod in made.core.list_namespaced_pod(made.namespace).items:
        try:
            made.delete(pod.metadata.name, grace_s=0)
        except client.ApiException as error:
            assert error.status == 404
    made.core.delete_namespace(made.namespace)
    made.api.close()


@pytest.fixture
def minicluster(own_minicluster: MiniClusterProcess | None) -> MiniClusterProcess:
    """The session's minicluster, for what only it can do."""
    if own_minicluster is None:
        pytest.skip("another cluster is under test, and this is minicluster's own")
    return own_minicluster


@pytest.fixture
def admin(minicluster: MiniClusterProcess) -> Iterator[AdminClient]:
    """The admin surface; faults are healed and nodes restored afterwards."""
    made = AdminClient.from_kubeconfig(minicluster.kubeconfig)
    yield made
    made.heal_api()
    for node in ("v100-a", "v100-b", "k80-a"):
        made.restore(node)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[MiniClusterProcess]:
    """A minicluster of the test's own, to be killed and started again."""
    if os.environ.get("FFDL_TEST_KUBECONFIG"):
        pytest.skip("another cluster is under test, and this is minicluster's own")
    server = MiniClusterProcess(tmp_path / "minicluster")
    server.start()
    yield server
    if server.process is None or server.process.poll() is not None:
        server.start()
    bench = Bench(str(server.kubeconfig), "default")
    for pod in bench.core.list_namespaced_pod("default").items:
        bench.delete(pod.metadata.name, grace_s=0)
    eventually("no runs", lambda: not any((server.state / "server" / "pods").iterdir()))
    server.stop()
