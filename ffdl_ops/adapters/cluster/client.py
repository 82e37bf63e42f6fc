"""A small client of one cluster: the calls that this platform makes, retried and mapped to the project's errors.

Every call has a time limit, is retried on a busy or briefly absent API server, and says in its error which call on which
object failed. An object that is already there (409) or already gone (404) is a normal answer here, never an exception:
every caller must be able to run twice.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.errors import FfdlError, TemporaryError, UserError

if TYPE_CHECKING:
    from kubernetes import client as k8s

__all__ = ["Cluster", "ClusterRefused", "ClusterUnreachable", "QuotaExceeded"]

log = logging.getLogger(__name__)

_CALL_TIMEOUT_S = (3.05, 30.0)
_RETRIED_STATUS = frozenset({0, 408, 429, 500, 502, 503, 504})
_RETRY_DELAYS_S = (0.2, 0.5, 1.0, 2.0, 4.0)


class ClusterRefused(FfdlError):
    """The API server answered "no" for good: the message carries its own words.

    :param status: the HTTP status.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class QuotaExceeded(ClusterRefused):
    """The namespace's ResourceQuota leaves no room (HTTP 403): a reason to wait, not to fail."""


class ClusterUnreachable(TemporaryError):
    """The API server gave no usable answer within the retries."""


class Cluster:
    """One Kubernetes API server.

    :param kubeconfig: path of a kubeconfig file; ``None`` takes the pod's own service account.
    """

    def __init__(self, kubeconfig: str | None) -> None:
        self.kubeconfig = kubeconfig
        self._pid = os.getpid()

    @functools.cached_property
    def api(self) -> Any:
        """The configured ``ApiClient`` (a connection pool; not shared across forks).

        :raises UserError: when no cluster is configured, or its kubeconfig can't be used.
        """
        from kubernetes import client, config

        configuration = client.Configuration()
        try:
            if self.kubeconfig:
                config.load_kube_config(self.kubeconfig, client_configuration=configuration)
            else:
                config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException as error:
            if self.kubeconfig:
                raise UserError(f"The kubeconfig {self.kubeconfig} can't be used: {error}") from None
            raise UserError(
                "No cluster is configured: KUBECONFIG is not set, no platform is up here, and this is no pod of a cluster. "
                "Set it, or run `ffdl up`."
            ) from None
        configuration.retries = False
        # What a server leaves out of an answer is no reason to refuse the rest of it.
        configuration.client_side_validation = False
        return client.ApiClient(configuration)

    @functools.cached_property
    def core(self) -> k8s.CoreV1Api:
        """The core/v1 API."""
        from kubernetes import client

        return client.CoreV1Api(self.api)

    def call(self, what: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call one API function, tried again while the server is busy or away.

        :param what: the call in words, for errors ("create pod x").
        :raises ClusterUnreachable: when the retries are used up.
        :raises QuotaExceeded: 403 by a ResourceQuota.
        :raises ClusterRefused: any other refusal.
        """
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        kwargs.setdefault("_request_timeout", _CALL_TIMEOUT_S)
        last = ""
        for delay in (*_RETRY_DELAYS_S, None):
            try:
                return function(*args, **kwargs)
            except ApiException as error:
                status = int(error.status or 0)
                last = _message_of(error)
                if status not in _RETRIED_STATUS:
                    kind = QuotaExceeded if status == 403 and "exceeded quota" in last else ClusterRefused
                    raise kind(f"The cluster refused to {what}: {last} (HTTP {status}).", status=status) from None
            except (HTTPError, OSError) as error:
                last = f"{type(error).__name__}: {error}"
            if delay is not None:
                time.sleep(delay)
        raise ClusterUnreachable(f"The cluster did not answer when asked to {what}: {last}.")

    def _created(self, what: str, function: Callable[..., Any], *args: Any) -> Any | None:
        """Create an object; ``None`` when one of that name is there already."""
        try:
            return self.call(what, function, *args)
        except ClusterRefused as error:
            if error.status == 409:
                return None
            raise

    def _found(self, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any | None:
        """Read or delete an object; ``None`` when it is not there."""
        try:
            return self.call(what, function, *args, **kwargs)
        except ClusterRefused as error:
            if error.status == 404:
                return None
            raise

    # -- nodes ---------------------------------------------------------------------------------------------------
    def nodes(self) -> list[k8s.V1Node]:
        """All nodes."""
        return self.call("list nodes", self.core.list_node).items

    def let_schedule(self, node: str, allowed: bool) -> bool:
        """Uncordon a node, or cordon it: what runs there goes on, nothing new is put there.

        :returns: whether there is such a node.
        """
        change = {"spec": {"unschedulable": not allowed}}
        words = f"{'uncordon' if allowed else 'cordon'} node {node}"
        return self._found(words, self.core.patch_node, node, change) is not None

    # -- pods ----------------------------------------------------------------------------------------------------
    def create_pod(self, pod: k8s.V1Pod) -> k8s.V1Pod:
        """Create a pod, or return the one of that name that this job already owns.

        :raises ClusterRefused: also when the name belongs to another job (pods are matched by job and attempt, never
            by name alone).
        """
        namespace, name = pod.metadata.namespace, pod.metadata.name
        created = self._created(f"create pod {name}", self.core.create_namespaced_pod, namespace, pod)
        if created is not None:
            return created
        existing = self.pod(namespace, name)
        if existing is None:
            raise ClusterUnreachable(f"Pod {name} was there when it was created and gone when it was read; try again.")
        for label in ("ffdl.dev/job", "ffdl.dev/attempt", "ffdl.dev/stage"):
            if (existing.metadata.labels or {}).get(label) != (pod.metadata.labels or {}).get(label):
                raise ClusterRefused(
                    f"Pod {namespace}/{name} exists and is not this job's ({label} differs); delete it or rename it.",
                    status=409,
                )
        return existing

    def pod(self, namespace: str, name: str) -> k8s.V1Pod | None:
        """One pod, or ``None``."""
        return self._found(f"read pod {name}", self.core.read_namespaced_pod, name, namespace)

    def pods(self, namespace: str, selector: str) -> list[k8s.V1Pod]:
        """The pods of a namespace that a label selector matches, terminating ones included."""
        return self.call(
            f"list pods {selector}", self.core.list_namespaced_pod, namespace, label_selector=selector
        ).items

    def pods_everywhere(self, selector: str) -> list[k8s.V1Pod]:
        """The pods of all namespaces that a label selector matches."""
        listed = self.core.list_pod_for_all_namespaces
        return self.call(f"list all pods {selector}", listed, label_selector=selector).items

    def delete_pod(self, namespace: str, name: str, *, uid: str | None = None, grace_s: int | None = None) -> bool:
        """Ask for a pod's end; ``False`` when it is gone already (or another pod has its name by now)."""
        from kubernetes import client

        options = client.V1DeleteOptions(
            grace_period_seconds=grace_s, preconditions=client.V1Preconditions(uid=uid) if uid else None
        )
        try:
            found = self._found(f"delete pod {name}", self.core.delete_namespaced_pod, name, namespace, body=options)
        except ClusterRefused as error:
            if error.status == 409:
                return False
            raise
        return found is not None

    def pod_log(
        self,
        namespace: str,
        name: str,
        *,
        container: str = "learner",
        since_s: int | None = None,
        tail: int | None = None,
        most_bytes: int | None = None,
    ) -> str:
        """What a container has printed; empty when there is no log (yet, or any more).

        :param most_bytes: no more than the first bytes of it.
        """
        try:
            answer = self.call(
                f"read the log of pod {name}",
                self.core.read_namespaced_pod_log,
                name,
                namespace,
                container=container,
                since_seconds=since_s,
                tail_lines=tail,
                limit_bytes=most_bytes,
                _preload_content=False,
            )
            return answer.data.decode("utf-8", "replace")
        except ClusterRefused as error:
            if error.status in (400, 404):
                return ""
            raise

    def follow_log(self, namespace: str, name: str, *, container: str = "learner") -> Iterator[str]:
        """The lines of a container's log as they come, until it ends; reopening is the caller's business."""
        answer = self.call(
            f"follow the log of pod {name}",
            self.core.read_namespaced_pod_log,
            name,
            namespace,
            container=container,
            follow=True,
            _preload_content=False,
            _request_timeout=(3.05, 3600.0),
        )
        rest = b""
        for chunk in answer.stream(amt=None):
            rest += chunk
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")

    # -- services and secrets --------------------------------------------------------------------------------------
    def create_service(self, service: k8s.V1Service) -> None:
        """Create a service unless it is there."""
        self._created(
            f"create service {service.metadata.name}",
            self.core.create_namespaced_service,
            service.metadata.namespace,
            service,
        )

    def delete_service(self, namespace: str, name: str) -> None:
        """Delete a service if it is there."""
        self._found(f"delete service {name}", self.core.delete_namespaced_service, name, namespace)

    def put_secret(self, secret: k8s.V1Secret) -> None:
        """Create or replace a secret."""
        name, namespace = secret.metadata.name, secret.metadata.namespace
        if self._created(f"create secret {name}", self.core.create_namespaced_secret, namespace, secret) is None:
            self.call(f"replace secret {name}", self.core.replace_namespaced_secret, name, namespace, secret)

    def secret(self, namespace: str, name: str) -> dict[str, str] | None:
        """A secret's values in clear, or ``None`` when there is none."""
        import base64

        found = self._found(f"read secret {name}", self.core.read_namespaced_secret, name, namespace)
        if found is None:
            return None
        return {key: base64.b64decode(value).decode() for key, value in (found.data or {}).items()}


def _message_of(error: Any) -> str:
    """The server's own message in an ``ApiException``, without headers."""
    import json

    body = error.body
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    try:
        return str(json.loads(body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason or body or "no reason given")
