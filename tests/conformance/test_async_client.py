"""The asynchronous official client, as Airflow's triggerer uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kubernetes_asyncio import client, config, watch

from tests.conformance.bench import Bench, shell_pod


def with_client(bench: Bench, work: Callable[[client.CoreV1Api], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        configuration = client.Configuration()
        await config.load_kube_config(bench.kubeconfig, client_configuration=configuration)
        async with client.ApiClient(configuration) as api:
            return await work(client.CoreV1Api(api))

    return asyncio.run(asyncio.wait_for(run(), 40))


def test_a_pod_is_created_watched_read_and_deleted(bench: Bench) -> None:
    async def work(core: client.CoreV1Api) -> list[str]:
        created = await core.create_namespaced_pod(bench.namespace, shell_pod("p", "echo hi; exit 3"))
        phases = []
        async with watch.Watch() as stream:
            async for event in stream.stream(
                core.list_namespaced_pod,
                bench.namespace,
                resource_version=created.metadata.resource_version,
                timeout_seconds=20,
            ):
                phase = event["object"].status.phase
                if phase not in phases[-1:]:
                    phases.append(phase)
                if phase in ("Succeeded", "Failed"):
                    break
        assert await core.read_namespaced_pod_log("p", bench.namespace) == "hi\n"
        await core.delete_namespaced_pod("p", bench.namespace)
        return phases

    assert with_client(bench, work)[-1] == "Failed"


def test_a_log_is_followed(bench: Bench) -> None:
    async def work(core: client.CoreV1Api) -> bytes:
        answer = await core.read_namespaced_pod_log("p", bench.namespace, follow=True, _preload_content=False)
        return b"".join([chunk async for chunk in answer.content])

    bench.run("p", "for i in 1 2 3; do echo $i; sleep 0.1; done")
    bench.wait_log("p", "1")
    assert with_client(bench, work) == b"1\n2\n3\n"


def test_errors_carry_the_status(bench: Bench) -> None:
    async def work(core: client.CoreV1Api) -> int:
        with pytest.raises(client.ApiException) as refused:
            await core.read_namespaced_pod("nobody", bench.namespace)
        return int(refused.value.status)

    assert with_client(bench, work) == 404


def test_many_watches_and_requests_at_once(bench: Bench) -> None:
    async def one(core: client.CoreV1Api, number: int) -> str:
        name = f"p{number}"
        await core.create_namespaced_pod(bench.namespace, shell_pod(name, f"echo pod {number}"))
        async with watch.Watch() as stream:
            async for event in stream.stream(
                core.list_namespaced_pod, bench.namespace, field_selector=f"metadata.name={name}", timeout_seconds=30
            ):
                if event["object"].status.phase == "Succeeded":
                    break
        return str(await core.read_namespaced_pod_log(name, bench.namespace))

    async def work(core: client.CoreV1Api) -> list[str]:
        return list(await asyncio.gather(*(one(core, number) for number in range(20))))

    assert with_client(bench, work) == [f"pod {number}\n" for number in range(20)]
