"""Get, list (with pages) and watch."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from ffdl_ops.local.minicluster.api.request import Target, respond, truth, wants_table
from ffdl_ops.local.minicluster.errors import ApiError, bad_request, expired
from ffdl_ops.local.minicluster.selectors import field_selector, label_selector
from ffdl_ops.local.minicluster.store import Change, Object, Store
from ffdl_ops.local.minicluster.tables import table

__all__ = ["Pages", "get", "list_objects", "select", "watch"]

_BOOKMARK_EVERY_S = 30.0
_PAGE_KEPT_S = 300.0
_PAGES_KEPT = 64

Test = Callable[[Object], bool]


class Pages:
    """The rests of lists that clients read page by page: each is what the list was when its first page was read."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, str, list[Object]]] = OrderedDict()

    def keep(self, version: str, rest: list[Object]) -> str:
        """Keep a rest; its token."""
        key = secrets.token_hex(8)
        self._kept[key] = (time.monotonic(), version, rest)
        while len(self._kept) > _PAGES_KEPT:
            self._kept.popitem(last=False)
        return base64.urlsafe_b64encode(json.dumps({"v": version, "k": key}).encode()).decode()

    def take(self, token: str) -> tuple[str, list[Object]]:
        """The version and the rest behind a token.

        :raises ApiError: 410 when it is no longer kept.
        """
        try:
            key = json.loads(base64.urlsafe_b64decode(token))["k"]
        except (ValueError, KeyError, TypeError):
            raise bad_request("continue key is not valid") from None
        kept = self._kept.get(key)
        if kept is None or time.monotonic() - kept[0] > _PAGE_KEPT_S:
            raise expired("The provided continue parameter is too old to display a consistent list result. You can start a "
                          "new list without the continue parameter.")  # fmt: skip
        return kept[1], kept[2]

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()


def _test(target: Target, query: Mapping[str, str]) -> Test:
    """What a request's selectors and name let through."""
    labels = label_selector(query["labelSelector"]) if query.get("labelSelector") else None
    fields = field_selector(query["fieldSelector"], target.resource.plural) if query.get("fieldSelector") else None

    def test(body: Object) -> bool:
        meta = body["metadata"]
        if target.namespace and meta.get("namespace") != target.namespace:
            return False
        if target.name and meta["name"] != target.name:
            return False
        if labels is not None and not labels(meta.get("labels") or {}):
            return False
        return fields is None or fields(body)

    return test


def select(store: Store, target: Target, query: Mapping[str, str]) -> list[Object]:
    """The objects of a collection that a request's selectors let through."""
    test = _test(target, query)
    return [body for body in store.list(target.resource.key, target.namespace) if test(body)]


def get(store: Store, target: Target, request: web.Request) -> web.Response:
    """GET of one object."""
    found = store.get(target.resource.key, target.namespace, target.name)
    if wants_table(request):
        return respond(table(target.resource, [found], store.version))
    return respond(found)


def list_objects(store: Store, pages: Pages, target: Target, request: web.Request) -> web.Response:
    """GET of a collection."""
    query = request.query
    _check_version(query, store)
    version = str(store.version)
    if query.get("continue"):
        version, found = pages.take(query["continue"])
    else:
        found = select(store, target, query)
    meta: dict[str, Any] = {"resourceVersion": version}
    limit = _number(query, "limit")
    if limit and len(found) > limit:
        meta |= {"continue": pages.keep(version, found[limit:]), "remainingItemCount": len(found) - limit}
        found = found[:limit]
    if wants_table(request):
        return respond({**table(target.resource, found, store.version), "metadata": meta})
    resource = target.resource
    return respond(
        {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta, "items": found}
    )


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax ({name})') from None


def _check_version(query: Mapping[str, str], store: Store) -> None:
    wanted = _number(query, "resourceVersion")
    if wanted and wanted > store.version:
        details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
        message = f"Too large resource version: {wanted}, current: {store.version}"
        raise ApiError(504, "Timeout", message, details)


async def watch(store: Store, target: Target, request: web.Request) -> web.StreamResponse:
    """GET with ``watch``: changes as they happen, one JSON document per line."""
    query = request.query
    test = _test(target, query)
    version = _number(query, "resourceVersion")
    queue: asyncio.Queue[Change] = asyncio.Queue()
    initial: list[Object] = []
    if version is None or version == 0 or truth(query.get("sendInitialEvents")):
        initial = select(store, target, query)
    else:
        for change in store.since(version):
            queue.put_nowait(change)
    stop = store.listen(queue.put_nowait)
    try:
        return await _Watch(store, target, request, test).serve(initial, queue)
    finally:
        stop()


class _Watch:
    """One open watch."""

    def __init__(self, store: Store, target: Target, request: web.Request, test: Test) -> None:
        self._store, self._target, self._request, self._test = store, target, request, test
        self._table = wants_table(request)
        self._columns = True
        self._response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        self._version = store.version

    async def serve(self, initial: list[Object], queue: asyncio.Queue[Change]) -> web.StreamResponse:
        """Send until the client's time is over or it goes."""
        query = self._request.query
        end = time.monotonic() + (_number(query, "timeoutSeconds") or 3600)
        bookmarks = truth(query.get("allowWatchBookmarks"))
        self._response.enable_chunked_encoding()
        await self._response.prepare(self._request)
        for body in initial:
            await self._send("ADDED", body)
        if truth(query.get("sendInitialEvents")):
            await self._bookmark({"k8s.io/initial-events-end": "true"})
        while (left := end - time.monotonic()) > 0:
            try:
                change = await asyncio.wait_for(queue.get(), min(left, _BOOKMARK_EVERY_S))
            except TimeoutError:
                if bookmarks and left > _BOOKMARK_EVERY_S:
                    await self._bookmark()
                continue
            self._version = change.version
            if change.resource.key == self._target.resource.key:
                await self._pass_on(change)
        if bookmarks:
            await self._bookmark()
        await self._response.write_eof()
        return self._response

    async def _pass_on(self, change: Change) -> None:
        """What the change is to this watch: an object may come into its selection, or leave it."""
        before = change.previous is not None and self._test(change.previous)
        after = change.type != "DELETED" and self._test(change.object)
        if after:
            await self._send("MODIFIED" if before else "ADDED", change.object)
        elif before:
            await self._send("DELETED", change.object)

    async def _bookmark(self, annotations: Mapping[str, str] | None = None) -> None:
        meta: dict[str, Any] = {"resourceVersion": str(self._store.version if annotations else self._version)}
        if annotations:
            meta["annotations"] = dict(annotations)
        resource = self._target.resource
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if self._table:
            body = {**table(resource, [], int(meta["resourceVersion"])), "metadata": meta}
        await self._write({"type": "BOOKMARK", "object": body})

    async def _send(self, kind: str, body: Object) -> None:
        if self._table:
            body = table(self._target.resource, [body], self._store.version, columns=self._columns)
            self._columns = False
        await self._write({"type": kind, "object": body})

    async def _write(self, document: Any) -> None:
        await self._response.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
