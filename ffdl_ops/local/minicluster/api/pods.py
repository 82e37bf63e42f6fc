"""What only pods have: logs, eviction, binding."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import web

from ffdl_ops.local.minicluster.api.request import Target, read_body, respond, truth
from ffdl_ops.local.minicluster.containers import Run
from ffdl_ops.local.minicluster.deletion import DeleteOptions, delete
from ffdl_ops.local.minicluster.errors import ApiError, bad_request, conflict, not_found
from ffdl_ops.local.minicluster.kubelet import Kubelet
from ffdl_ops.local.minicluster.logs import LogOptions, follow, read
from ffdl_ops.local.minicluster.podstatus import with_condition
from ffdl_ops.local.minicluster.store import Object, Store
from ffdl_ops.local.minicluster.times import parse_time

__all__ = ["bind", "evict", "send_log"]


def _container(pod: Object, wanted: str | None) -> str:
    """The container that a log request means.

    :raises ApiError: 400 when it is not clear, or there is none of the name.
    """
    spec = pod["spec"]
    mains, inits = (
        [one["name"] for one in spec["containers"]],
        [one["name"] for one in spec.get("initContainers") or ()],
    )
    name = pod["metadata"]["name"]
    if wanted:
        if wanted not in (*mains, *inits):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in mains:
        return str(default)
    if len(mains) > 1:
        choices = f"choose one of: [{' '.join(mains)}]"
        if inits:
            choices += f" or one of the init containers: [{' '.join(inits)}]"
        raise bad_request(f"a container name must be specified for pod {name}, {choices}")
    return str(mains[0])


def _run(kubelet: Kubelet, pod: Object, container: str, previous: bool) -> Run:
    uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
    runs = kubelet.runtime.runs.get(uid, {}).get(container) or []
    if previous:
        if len(runs) < 2:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return runs[-2]
    if not runs or not (runs[-1].running or runs[-1].ended):
        if len(runs) > 1:
            return runs[-2]
        statuses = pod["status"].get("containerStatuses", []) + pod["status"].get("initContainerStatuses", [])
        state: Object = next((one["state"] for one in statuses if one["name"] == container), {})
        reason = state.get("waiting", {}).get("reason", "ContainerCreating")
        if pod["status"].get("phase") == "Failed":
            raise bad_request(f'container "{container}" in pod "{name}" is terminated')
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    return runs[-1]


async def send_log(kubelet: Kubelet, target: Target, request: web.Request) -> web.StreamResponse:
    """GET of ``pods/x/log``."""
    query = request.query
    pod = kubelet.store.get("pods", target.namespace, target.name)
    run = _run(kubelet, pod, _container(pod, query.get("container")), truth(query.get("previous")))
    options = _options(query)
    if not truth(query.get("follow")):
        # In a thread: a long log must not keep the server from its other clients.
        return web.Response(body=await asyncio.to_thread(read, run.log, options), content_type="text/plain")
    response = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    async for data in follow(run.log, options, lambda: run.ended):
        if data:
            await response.write(data)
    await response.write_eof()
    return response


def _options(query: Any) -> LogOptions:
    try:
        since = parse_time(query["sinceTime"]) if query.get("sinceTime") else None
        if query.get("sinceSeconds"):
            since = time.time() - int(query["sinceSeconds"])
        tail = int(query["tailLines"]) if query.get("tailLines") else None
        limit = int(query["limitBytes"]) if query.get("limitBytes") else None
    except ValueError as error:
        raise bad_request(f"invalid log options: {error}") from None
    return LogOptions(truth(query.get("timestamps")), since, tail, limit)


async def evict(store: Store, target: Target, request: web.Request) -> web.Response:
    """POST of ``pods/x/eviction``: the pod is deleted gracefully, and says that it was disrupted."""
    body = await read_body(request)
    pod = store.get("pods", target.namespace, target.name)
    options = DeleteOptions.read(body.get("deleteOptions") or {}, {})
    text = "Eviction API: evicting"
    status = with_condition(pod["status"], "DisruptionTarget", "True", "EvictionByEvictionAPI", text)
    pod = store.update("pods", {**pod, "status": status})
    delete(store, target.resource, pod, options)
    return respond({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


async def bind(store: Store, target: Target, request: web.Request) -> web.Response:
    """POST of ``pods/x/binding``: what another scheduler decided."""
    body = await read_body(request)
    node = (body.get("target") or {}).get("name") or ""
    pod = store.get("pods", target.namespace, target.name)
    if pod["spec"].get("nodeName"):
        raise conflict(
            "pods/binding", target.name, f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        )
    if store.peek("nodes", "", node) is None:
        raise not_found("nodes", node)
    status = with_condition(pod["status"], "PodScheduled", "True")
    store.update("pods", {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status})
    return respond({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def refuse_streams(sub: str) -> ApiError:
    """501 of what needs a terminal or a tunnel."""
    return ApiError(
        501, "NotImplemented", f"minicluster does not do pods/{sub}: its pods are processes on this machine"
    )
