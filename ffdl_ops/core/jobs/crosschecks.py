"""What a manifest's fields must be to each other. It reads the manifest as it was written, so that these problems are found
together with those of single fields, and passes over values that are wrong by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.jobs.examples import EXAMPLES
from ffdl_ops.core.jobs.fields import check_image
from ffdl_ops.core.jobs.problems import Problem, nearest
from ffdl_ops.core.jobs.sections import CUSTOM

__all__ = ["MOST_RESTARTS", "cross_problems"]

MOST_RESTARTS: Mapping[FailureClass, int] = {
    FailureClass.USER_ERROR: 5,
    FailureClass.OOM: 5,
    FailureClass.IMAGE: 10,
    FailureClass.STARTUP: 20,
    FailureClass.EVICTED: 100,
    FailureClass.PREEMPTED: 1000,
    FailureClass.NODE_LOST: 100,
    FailureClass.PLATFORM: 20,
    FailureClass.UNKNOWN: 20,
}
"""How many restarts a manifest may ask for, by class."""


def cross_problems(manifest: Mapping[str, Any]) -> list[Problem]:
    """The problems between a manifest's fields.

    :param manifest: as it was written: names are FfDL's, any value may still be wrong.
    """
    return [
        *_framework(manifest),
        *_program(manifest),
        *_size(manifest),
        *_data_stores(manifest),
        *_metrics(manifest),
        *_checkpoint(manifest),
        *_retry(manifest),
    ]


def _framework(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    framework = _mapping(manifest.get("framework"))
    if framework.get("image") is not None:
        for field in ("version", "image_tag"):
            if framework.get(field) is not None:
                yield Problem.of(
                    f"framework.{field}",
                    framework[field],
                    "has no effect, since framework.image names the whole image",
                    "remove one of the two",
                )
        return
    if framework.get("version") is not None and framework.get("image_tag") is not None:
        yield Problem.of(
            "framework.image_tag",
            framework["image_tag"],
            "names the image's tag, and so does framework.version",
            "remove one of the two",
        )
    if str(framework.get("name")).lower() != CUSTOM:
        return
    version = framework.get("version")
    if version is None:
        yield Problem.of(
            "framework.version",
            None,
            "is required with framework 'custom': the image's name",
            "like version: 'name:tag', or use framework.image",
        )
        return
    try:
        check_image(version)
    except ValueError as error:
        yield Problem.of("framework.version", version, f"{error} (framework 'custom' takes the image's name here)")


def _program(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    name = manifest.get("example")
    if name is None:
        return
    example = EXAMPLES.get(name) if isinstance(name, str) else None
    if manifest.get("code") is not None:
        yield Problem.of(
            "code", manifest["code"], "can't be given with an example, which brings its own", "remove one of the two"
        )
    framework = _mapping(manifest.get("framework")).get("name")
    if example and isinstance(framework, str) and framework.lower() not in (example.framework, CUSTOM):
        alike = [other.name for other in EXAMPLES.values() if other.framework == framework.lower()]
        hint = f"choose the example {alike[0]}" if alike else f"write framework.name: {example.framework}"
        yield Problem.of("framework.name", framework, f"the example {name} is written for {example.framework}", hint)


def _size(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    learners = _mapping(manifest.get("learners"))
    low, high = learners.get("min", 0), learners.get("max", 0)
    if _is_number(low) and _is_number(high) and low > high > 0:
        yield Problem.of("learners.min", low, f"must not be more than learners.max, which is {high}")
    if manifest.get("gpu_type") is not None and manifest.get("gpus", 0) in (0, None):
        yield Problem.of(
            "gpu_type", manifest["gpu_type"], "has no effect, since gpus is 0", "set gpus, or remove gpu_type"
        )


def _data_stores(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    stores = manifest.get("data_stores")
    if not isinstance(stores, (list, tuple)):
        return
    for position, item in enumerate(stores[:1]):
        store, path = _mapping(item), f"data_stores[{position}]"
        if isinstance(item, Mapping) and store.get("training_data") is None and store.get("training_results") is None:
            yield Problem.of(
                path, None, "names neither training_data nor training_results", "add one, or remove the data store"
            )
        yield from _connection(_mapping(store.get("connection")), f"{path}.connection")


def _connection(connection: Mapping[str, Any], path: str) -> Iterator[Problem]:
    given = {field for field in ("auth_url", "user_name", "password") if connection.get(field) is not None}
    if connection.get("secret") is not None:
        for field in sorted(given | ({"region"} if connection.get("region") is not None else set())):
            yield Problem.of(
                f"{path}.{field}", None, "can't be given with a secret, which holds it", "remove one of the two"
            )
        return
    for field in sorted({"auth_url", "user_name", "password"} - given if given else set()):
        yield Problem.of(f"{path}.{field}", None, "is required with the other credentials")
    if connection and not given:
        yield Problem.of(
            path, None, "holds no credentials", "name a secret, give auth_url, user_name and password, or remove it"
        )


def _metrics(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    metrics = _mapping(manifest.get("evaluation_metrics"))
    kind = metrics.get("type")
    if kind is None or not isinstance(kind, str):
        return
    kind, path = kind.lower(), "evaluation_metrics"
    if kind == "regex_extractor":
        if metrics.get("groups") is None:
            yield Problem.of(f"{path}.groups", None, "is required with the type regex_extractor")
    else:
        for field in ("groups", "line_lookahead"):
            if metrics.get(field) is not None:
                yield Problem.of(
                    f"{path}.{field}",
                    metrics[field],
                    f"has no effect with the type {kind}",
                    "remove it, or use regex_extractor",
                )
    if kind in ("regex_extractor", "logger") and metrics.get("in") is not None:
        reason = f"has no effect with the type {kind}, which reads the output"
        yield Problem.of(f"{path}.in", metrics["in"], reason, "remove it")


def _checkpoint(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    checkpoint = _mapping(manifest.get("checkpoint"))
    if checkpoint.get("enabled") is not False:
        return
    for field in ("interval_s", "keep", "per_rank"):
        if checkpoint.get(field) is not None:
            reason = "has no effect, since checkpoint.enabled is false"
            yield Problem.of(f"checkpoint.{field}", checkpoint[field], reason, "remove it")


def _retry(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    classes = [cls.value for cls in FailureClass]
    for name, count in _mapping(manifest.get("retry")).items():
        path = f"retry.{str(name)[:60]}"
        if name not in classes:
            yield Problem.of(path, None, "is no class of failure", nearest(str(name), classes))
            continue
        limit = MOST_RESTARTS[FailureClass(name)]
        if not _is_number(count) or count != int(count) or not 0 <= count <= limit:
            yield Problem.of(path, count, f"must be a whole number of 0 to {limit}")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15
