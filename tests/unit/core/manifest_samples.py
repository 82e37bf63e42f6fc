"""Manifests for the tests: a good one, and the changes that make it wrong in one place each."""

from __future__ import annotations

from typing import Any

GOOD: dict[str, Any] = {"name": "x", "framework": {"name": "pytorch", "command": "python3 x.py"}}


def framework(**fields: Any) -> dict[str, Any]:
    return {"framework": {**GOOD["framework"], **fields}}


def store(**fields: Any) -> dict[str, Any]:
    return {"data_stores": [{"id": "a", "type": "mount_cos", "training_data": {"container": "bucket"}, **fields}]}


def metrics(**fields: Any) -> dict[str, Any]:
    return {"evaluation_metrics": fields}


INLINE = {"auth_url": "http://s3.example.org", "user_name": "u", "password": "p"}

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"gpus": -1}, "gpus", "0 to 64"),
    ({"gpus": 0.5}, "gpus", "whole number"),
    ({"gpus": True}, "gpus", "whole number"),
    ({"gpus": "1"}, "gpus", "whole number"),
    ({"gpus": float("inf")}, "gpus", "whole number"),
    ({"gpus": 10**400}, "gpus", "0 to 64"),
    ({"learners": 0}, "learners", "1 to 64"),
    ({"learners": 65}, "learners", "1 to 64"),
    ({"learners": [1]}, "learners", "whole number"),
    ({"learners": {"min": 3, "max": 2}}, "learners.min", "more than learners.max"),
    ({"learners": {"min": 3}}, "learners.max", "required"),
    ({"cpus": 0}, "cpus", "more than 0"),
    ({"cpus": -2}, "cpus", "more than 0"),
    ({"cpus": 10**9}, "cpus", "at most"),
    ({"cpus": "4 cores"}, "cpus", "cpus"),
    ({"cpus": float("nan")}, "cpus", "more than 0"),
    ({"memory": 8}, "memory", "needs a unit"),
    ({"memory": "8"}, "memory", "needs a unit"),
    ({"memory": "512m"}, "memory", "thousandths of a byte"),
    ({"memory": "1KiB"}, "memory", "16 MiB"),
    ({"memory": "8Gbit"}, "memory", "8Gb"),
    ({"gpu_type": "V100"}, "gpu_type", "gpus is 0"),
    ({"gpus": 1, "gpu_type": "../x"}, "gpu_type", "GPU type"),
    ({"name": ""}, "name", "1 to 128"),
    ({"name": "a\nb"}, "name", "line break"),
    ({"name": "x" * 129}, "name", "128"),
    ({"name": True}, "name", "quotes"),
    ({"name": "a\ud800"}, "name", "control character"),
    ({"description": "x" * 5000}, "description", "4096"),
    ({"priority": 101}, "priority", "0 to 100"),
    ({"deadline": 12}, "deadline", "needs a unit"),
    ({"deadline": "soon"}, "deadline", "12h"),
    ({"deadline": "900d"}, "deadline", "366d"),
    ({"storage": "10Gb"}, "storage", "no effect"),
    ({"code": "s3://bucket/x.tar"}, "code", "zip"),
    ({"code": "s3://bucket/../x.zip"}, "code", "address of an object"),
    ({"code": "http://bucket/x.zip"}, "code", "s3://"),
    ({"example": "nothing"}, "example", "no example"),
    ({"example": "digits-pytorch", "code": "s3://bucket/x.zip"}, "code", "brings its own"),
    ({"example": "digits-tensorflow"}, "framework.name", "written for tensorflow"),
    ({"checkpoint": {"interval_s": 0}}, "checkpoint.interval_s", "0.5"),
    ({"checkpoint": {"keep": 0}}, "checkpoint.keep", "1 to"),
    ({"checkpoint": {"per_rank": "yes"}}, "checkpoint.per_rank", "true or false"),
    ({"checkpoint": 5}, "checkpoint", "mapping"),
    ({"checkpoint": {"enabled": 0}}, "checkpoint.enabled", "true or false"),
    ({"checkpoint": {"enabled": False, "keep": 2}}, "checkpoint.keep", "no effect, since"),
    ({"checkpoint": {"enabled": False, "per_rank": False}}, "checkpoint.per_rank", "no effect, since"),
    ({"monitor": {"enabled": "no"}}, "monitor.enabled", "true or false"),
    ({"monitor": {"seconds": 1}}, "monitor.seconds", "no field here"),
    ({"preflight": {"seconds": 0}}, "preflight.seconds", "1 to 3600"),
    ({"preflight": {"steps": 1.5}}, "preflight.steps", "whole"),
    ({"retry": {"oom": 900}}, "retry.oom", "0 to 5"),
    ({"retry": {"oom": -1}}, "retry.oom", "0 to 5"),
    ({"retry": {"oom": "1"}}, "retry.oom", "whole number"),
    ({"retry": {"nodelost": 1}}, "retry.nodelost", "no class of failure"),
    ({"retry": 3}, "retry", "mapping"),
    (framework(name="a b"), "framework.name", "framework's name"),
    (framework(command=""), "framework.command", "empty"),
    (framework(command="x" * 16385), "framework.command", "16 KiB"),
    (framework(command=["python3"]), "framework.command", "text"),
    (framework(command="a\0b"), "framework.command", "control"),
    (framework(image="UPPER/x y"), "framework.image", "image name"),
    (framework(image="../../x"), "framework.image", "image name"),
    (framework(image="a:b", version="1"), "framework.version", "no effect"),
    (framework(image_tag="a/b"), "framework.image_tag", "image tag"),
    (framework(image_tag="a", version="b"), "framework.image_tag", "remove one"),
    (framework(name="custom"), "framework.version", "required"),
    (framework(name="custom", version="Not An Image"), "framework.version", "image name"),
    ({"data_stores": {"id": "x"}}, "data_stores", "list"),
    ({"data_stores": store()["data_stores"] * 2}, "data_stores", "one data store"),
    ({"data_stores": [{"type": "mount_cos"}]}, "data_stores[0]", "neither"),
    (store(type="mount_volume"), "data_stores[0].type", "can't be mounted"),
    (store(type="swift"), "data_stores[0].type", "no data-store type"),
    (store(training_data={"container": "bucket/../other"}), "data_stores[0].training_data.container", "'..'"),
    (store(training_data={"container": "../x"}), "data_stores[0].training_data.container", "bucket"),
    (store(training_data={"container": "s3://x"}), "data_stores[0].training_data.container", "s3://"),
    (store(training_data={"container": "a"}), "data_stores[0].training_data.container", "3 to 63"),
    (store(training_data={"container": "bucket/a\\b"}), "data_stores[0].training_data.container", "backslash"),
    (store(connection={**INLINE, "secret": "x"}), "data_stores[0].connection.password", "secret"),
    (store(connection={"auth_url": "http://x"}), "data_stores[0].connection.password", "required"),
    (store(connection={**INLINE, "auth_url": "file:///etc/passwd"}), "data_stores[0].connection.auth_url", "https://"),
    (store(connection={**INLINE, "auth_url": "http://u:p@x"}), "data_stores[0].connection.auth_url", "without user"),
    (store(connection={**INLINE, "auth_url": "http://[x"}), "data_stores[0].connection.auth_url", "https://"),
    (store(connection={**INLINE, "type": "host_mount"}), "data_stores[0].connection.type", "S3"),
    (store(connection={"secret": "ffdl-storage"}), "data_stores[0].connection.secret", "secret"),
    (store(connection={"region": "x"}), "data_stores[0].connection", "no credentials"),
    (metrics(type="magic"), "evaluation_metrics.type", "no way"),
    (metrics(), "evaluation_metrics.type", "required"),
    (metrics(type="logger", groups={}), "evaluation_metrics.groups", "no effect"),
    (metrics(type="logger", **{"in": "$LOG_DIR/x"}), "evaluation_metrics.in", "no effect"),
    (metrics(type="tensorboard", **{"in": "/etc"}), "evaluation_metrics.in", "$JOB_STATE_DIR"),
    (metrics(type="tensorboard", **{"in": "$LOG_DIR/../.."}), "evaluation_metrics.in", "'..'"),
    (metrics(type="tensorboard", eventTypes=["scalars"]), "evaluation_metrics.eventTypes", "no effect"),
    (metrics(type="logger", image_tag="x"), "evaluation_metrics.image_tag", "no effect"),
    (metrics(type="regex_extractor"), "evaluation_metrics.groups", "required"),
    ({"env": {"A": True}}, "env.A", "quotes"),
    ({"env": {"A": "x" * 5000}}, "env.A", "4096"),
    ({"env": {"A": "a\0b"}}, "env.A", "character"),
    ({"env": {"A B": "1"}}, "env.A B", "variable name"),
    ({"env": {"A=B": "1"}}, "env.A=B", "variable name"),
    ({"env": {f"A{n}": "1" for n in range(101)}}, "env", "100 variables"),
    ({"env": {f"A{n}": "x" * 4000 for n in range(10)}}, "env", "together"),
    ({"env": ["A"]}, "env", "mapping"),
]  # fmt: skip
