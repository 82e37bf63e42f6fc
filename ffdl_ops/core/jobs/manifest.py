"""The manifest: what a user writes to have a model trained. FfDL's fields with FfDL's units, and this platform's additions.

Sizes (`gpus`, `cpus`, `memory`) are per learner. Every field that is accepted has an effect; the others are refused with
their path and the nearest valid name. All problems of a text are found at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, WithJsonSchema, model_validator

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.jobs.crosschecks import MOST_RESTARTS, cross_problems
from ffdl_ops.core.jobs.environment import Environment
from ffdl_ops.core.jobs.examples import EXAMPLES
from ffdl_ops.core.jobs.fields import Cpus, Duration, GpuType, Label, LongText, Memory, Section, refuse
from ffdl_ops.core.jobs.metrics import EvaluationMetrics
from ffdl_ops.core.jobs.problems import Problem, Problems, nearest
from ffdl_ops.core.jobs.sections import (
    Checkpoint,
    Connection,
    Count,
    DataStore,
    Framework,
    Layout,
    LearnerRange,
    Monitor,
    Preflight,
    S3Uri,
    Whole,
)
from ffdl_ops.core.jobs.translate import INEFFECTIVE, problems_of
from ffdl_ops.core.jobs.units import parse_cpu, parse_duration, parse_memory
from ffdl_ops.core.jobs.yamltext import load_yaml

__all__ = ["DEFAULT_CPUS", "DEFAULT_MEMORY", "Manifest", "ManifestErrors", "Problem", "load_manifest"]

DEFAULT_CPUS = 0.5
DEFAULT_MEMORY = "2Gi"
DEFAULT_PRIORITY = 50
MAX_GPUS = 64
MAX_PRIORITY = 100
HIDDEN = "(hidden)"

_STORE_TYPE = re.compile(r"data_stores\[\d+\]\.type")
_GPUS = Whole(0, MAX_GPUS)
_PRIORITY = Whole(0, MAX_PRIORITY)


class ManifestErrors(Problems):
    """A manifest with problems: all of them, in ``problems``."""


def _check_example(value: Any) -> str:
    if not isinstance(value, str) or value not in EXAMPLES:
        raise refuse("is no example of this platform", nearest(str(value), EXAMPLES))
    return value


def _check_retry(value: Any) -> Any:
    """Names and counts are judged by the cross checks, too, which know each class's limit."""
    if not isinstance(value, Mapping):
        raise refuse("must be a mapping of failure class to number of restarts", "like retry: {node_lost: 5}")
    return value


def _one_store(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and len(value) > 1:
        raise refuse(f"there may be one data store, and there are {len(value)}", "copy the data into one bucket")
    return value


_Retry = Annotated[
    dict[FailureClass, int],
    BeforeValidator(_check_retry),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                cls.value: {"type": "integer", "minimum": 0, "maximum": limit} for cls, limit in MOST_RESTARTS.items()
            },
            "additionalProperties": False,
        }
    ),
]


class Manifest(Section):
    """A training job as its user describes it. Build one with `load_manifest`."""

    name: Label
    description: LongText | None = None
    version: Label | None = None
    framework: Framework
    learners: Annotated[
        Annotated[Count, Tag("count")] | Annotated[LearnerRange, Tag("range")],
        Discriminator(lambda value: "range" if isinstance(value, (Mapping, LearnerRange)) else "count"),
    ] = 1
    gpus: Annotated[int, *_GPUS] = 0
    cpus: Cpus = DEFAULT_CPUS
    memory: Memory = DEFAULT_MEMORY
    gpu_type: GpuType | None = None
    data_stores: Annotated[list[DataStore], BeforeValidator(_one_store), Field(max_length=1)] = []
    evaluation_metrics: EvaluationMetrics | None = None
    checkpoint: Checkpoint = Checkpoint()
    monitor: Monitor = Monitor()
    retry: _Retry = {}
    preflight: Preflight = Preflight()
    priority: Annotated[int, *_PRIORITY] = DEFAULT_PRIORITY
    deadline: Duration | None = None
    expected_duration: Duration | None = None
    placement: Layout = Layout()
    code: S3Uri | None = None
    example: Annotated[
        str | None, BeforeValidator(_check_example), WithJsonSchema({"type": "string", "enum": list(EXAMPLES)})
    ] = None
    env: Environment = {}

    @model_validator(mode="before")
    @classmethod
    def _fill_in_from_example(cls, data: Any) -> Any:
        return _with_example(data)

    @model_validator(mode="after")
    def _check_across(self) -> Self:
        problems = [*cross_problems(self.to_dict()), *_references(self)]
        if problems:
            raise ManifestErrors(problems)
        return self

    @property
    def learners_min(self) -> int:
        """The fewest learners that the job may start with."""
        return self.learners.min if isinstance(self.learners, LearnerRange) else self.learners

    @property
    def learners_max(self) -> int:
        """The most learners that the job has use for."""
        return self.learners.max if isinstance(self.learners, LearnerRange) else self.learners

    @property
    def gpus_total(self) -> int:
        """The GPUs of the whole gang at its largest."""
        return self.learners_max * self.gpus

    @property
    def memory_bytes(self) -> int:
        """Memory per learner, in bytes."""
        return parse_memory(self.memory)

    @property
    def cpu_millis(self) -> int:
        """Processors per learner, in thousandths."""
        return parse_cpu(self.cpus)

    @property
    def deadline_seconds(self) -> float | None:
        """How long the job may take in all, in seconds; ``None`` for no limit."""
        return None if self.deadline is None else parse_duration(self.deadline)

    @property
    def expected_seconds(self) -> float | None:
        """How long its training is expected to take, in seconds; it limits nothing."""
        return None if self.expected_duration is None else parse_duration(self.expected_duration)

    @property
    def has_inline_credentials(self) -> bool:
        """Whether the text itself holds a user name or password of a data store."""
        connections = [store.connection for store in self.data_stores if store.connection]
        return any(one.user_name is not None or one.password is not None for one in connections)

    def redacted(self) -> Manifest:
        """The same manifest, fit to be shown: credentials are replaced."""
        hidden = {"user_name": HIDDEN, "password": HIDDEN}
        return self._with_connections(
            lambda one: one.model_copy(update={field: text for field, text in hidden.items() if getattr(one, field)})
        )

    def with_secret(self, name: str) -> Manifest:
        """The same manifest with its data store's credentials replaced by the name of the secret that holds them."""
        return self._with_connections(lambda one: Connection(secret=name))

    def to_dict(self) -> dict[str, Any]:
        """What was written, as plain JSON values: `load_manifest` makes the same manifest of it."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The manifest as a JSON Schema, for editors and other programs."""
        from ffdl_ops.core.jobs.schema import manifest_schema

        return manifest_schema(cls)

    def _with_connections(self, change: Any) -> Manifest:
        stores = [
            store.model_copy(update={"connection": change(store.connection)}) if store.connection else store
            for store in self.data_stores
        ]
        return self.model_copy(update={"data_stores": stores}) if self.data_stores else self


def load_manifest(text_or_mapping: str | Mapping[str, Any]) -> Manifest:
    """The manifest in a YAML text, or in a mapping that was read already.

    :raises ManifestErrors: holding every problem, each with path, value, reason and hint.
    """
    data: Any = text_or_mapping
    if isinstance(data, (str, bytes)):
        try:
            data = load_yaml(data if isinstance(data, str) else data.decode("utf-8", "replace"))
        except Problems as refused:
            raise ManifestErrors(refused.problems) from None
    if not isinstance(data, Mapping):
        what = "nothing" if data is None else f"a {type(data).__name__}"
        reason = f"a manifest is a mapping of fields, and this is {what}"
        raise ManifestErrors([Problem("", "", reason, "begin with 'name: …'")])
    data = {key: value for key, value in data.items() if value is not None or key not in Manifest.model_fields}
    problems = cross_problems(data)
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        problems += problems_of(error, Manifest, data)
    except ManifestErrors as error:
        problems += error.problems
    else:
        if not problems:
            return manifest
    raise ManifestErrors(_sorted(problems))


def _with_example(data: Any) -> Any:
    """A manifest that names an example needs no framework and command of its own."""
    if not isinstance(data, Mapping):
        return data
    name, given = data.get("example"), data.get("framework")
    example = EXAMPLES.get(name) if isinstance(name, str) else None
    if example is None or not isinstance(given, (Mapping, type(None))):
        return data
    own = {"name": example.framework, "command": example.command}
    framework = {**own, **{key: value for key, value in (given or {}).items() if value is not None or key not in own}}
    return {**data, "framework": framework}


def _references(manifest: Manifest) -> list[Problem]:
    """What the metric groups refer to and their patterns do not have."""
    groups = (manifest.evaluation_metrics.groups if manifest.evaluation_metrics else None) or {}
    reason = "refers to a group that the regex does not have"
    return [
        Problem.of(f"evaluation_metrics.groups.{name}.{path}", reference, reason, hint)
        for name, group in groups.items()
        for path, reference, hint in group.unknown_references()
    ]


def _sorted(problems: list[Problem]) -> list[Problem]:
    """One problem per path, in the order of the manifest's fields; what is below a refused place is not reported again."""
    first: dict[str, Problem] = {}
    for problem in problems:
        first.setdefault(problem.path, problem)
    hollow = [f"{path.removesuffix('type')}connection" for path in first if _STORE_TYPE.fullmatch(path)]
    hollow += ["framework"] if "example" in first else []
    order = [*Manifest.model_fields, *INEFFECTIVE]

    def rank(problem: Problem) -> int:
        top = problem.path.split(".")[0].split("[")[0]
        return order.index(top) if top in order else len(order)

    kept = [one for one in first.values() if not one.path.startswith(tuple(hollow))]
    return sorted(kept, key=rank)
