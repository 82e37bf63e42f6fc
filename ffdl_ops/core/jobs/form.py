"""The trigger form: what a manifest says, as simple typed fields that Airflow's UI can show and its API can check.

A whole manifest may be given as YAML text instead; it then stands alone. What the form's own types let through is
validated again here, with the field's name in every message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.examples import EXAMPLES, Example
from ffdl_ops.core.jobs.manifest import Manifest, ManifestErrors, load_manifest
from ffdl_ops.core.jobs.problems import Problem, nearest
from ffdl_ops.core.jobs.sections import CUSTOM

if TYPE_CHECKING:
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["FormField", "form_fields", "in_the_forms_words", "manifest_from_form"]

NONE = "none"
AUTO = "auto"
_TEXT = ["null", "string"]
_LARGEST = 10**15
_FRAMEWORKS = ("pytorch", "tensorflow")
_PREFLIGHT = {"auto": None, "on": True, "off": False}
_METRICS = (NONE, "logger", "tensorboard", "emetrics_file")
_WHAT, _SIZE, _DATA, _MORE, _WHOLE = "What runs", "Size", "Data", "More", "Or: a whole manifest"
_OTHER_KEYS = frozenset({"submitted_by"})


@dataclass(frozen=True)
class FormField:
    """One field of the form, in JSON Schema's words.

    :param type: a JSON type, or several.
    :param enum: the only values that there are.
    :param examples: values that the form proposes; others are possible and are judged in ``plan``.
    :param format: ``multiline`` for a large box.
    :param section: the heading that it stands under.
    """

    type: str | list[str]
    default: Any
    title: str
    description: str
    enum: tuple[str, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    format: str | None = None
    section: str | None = None
    examples: tuple[str, ...] | None = None


_FIELDS: Mapping[str, FormField] = {
    "example": FormField(
        "string", NONE, "Example", "A ready-made training. 'none' for a program of your own.", section=_WHAT
    ),
    "command": FormField(
        _TEXT, None, "Command", "The shell command that starts your program; with an example, replaces its command.",
        section=_WHAT, format="multiline",
    ),
    "framework": FormField(
        "string", AUTO, "Framework", "'auto' is the example's; 'custom' runs the image named below.",
        section=_WHAT, examples=(AUTO, *_FRAMEWORKS, CUSTOM),
    ),
    "image": FormField(_TEXT, None, "Image", "A container image of your own, name:tag.", section=_WHAT),
    "code": FormField(
        _TEXT, None, "Code", "Your program as a zip archive in your bucket, s3://BUCKET/code/….zip.", section=_WHAT
    ),
    "learners": FormField("integer", 1, "Learners", "How many processes train together, each in a pod.", section=_SIZE),
    "gpus": FormField("integer", 0, "GPUs per learner", "0 trains on CPUs.", section=_SIZE),
    "gpu_type": FormField(_TEXT, None, "GPU type", "Empty for any.", section=_SIZE),
    "cpus": FormField(_TEXT, None, "CPUs per learner", "Like 0.5, 4 or 500m. Empty for the default.", section=_SIZE),
    "memory": FormField(
        _TEXT, None, "Memory per learner", "Like 8Gb, 512MiB or 16Gi. Empty for the default.", section=_SIZE
    ),
    "data": FormField(
        _TEXT, None, "Training data", "bucket/prefix of the data. Empty for an example's own, else for none.", section=_DATA
    ),
    "results": FormField(
        _TEXT, None, "Results", "bucket or bucket/prefix for the results. Empty for the job's own place.", section=_DATA
    ),
    "name": FormField(_TEXT, None, "Name", "What people call the job.", section=_MORE),
    "priority": FormField(
        ["null", "integer"], None, "Priority", "Higher goes first. Empty for the tenant's default.", section=_MORE
    ),
    "metrics": FormField(
        "string", NONE, "Metrics", "How metrics are read; 'none' reads key=value lines of the output.",
        enum=_METRICS, section=_MORE,
    ),
    "checkpoint_interval": FormField(
        "number", 2, "Checkpoint interval", "Seconds between looks for new checkpoints.", section=_MORE
    ),
    "deadline": FormField(
        _TEXT, None, "Deadline", "How long the job may take in all, like 90m or 12h. Empty for no limit.", section=_MORE
    ),
    "preflight": FormField(
        "string", AUTO, "Preflight", "Try one learner first; 'auto' does for more than two learners.",
        enum=tuple(_PREFLIGHT), section=_MORE,
    ),
    "manifest": FormField(
        _TEXT, None, "Manifest", "YAML. When given, all fields above must be left as they are.",
        format="multiline", section=_WHOLE,
    ),
}  # fmt: skip

_FIELD_OF_PATH = {
    "framework.name": "framework",
    "framework.command": "command",
    "framework.version": "image",
    "framework.image": "image",
    "data_stores[0].training_data.container": "data",
    "data_stores[0].training_results.container": "results",
    "evaluation_metrics.type": "metrics",
    "checkpoint.interval_s": "checkpoint_interval",
    "preflight.enabled": "preflight",
}


def form_fields(tenant: Tenant, gpu_types: Iterable[str], examples: Mapping[str, Example]) -> dict[str, FormField]:
    """The form of one tenant's DAG.

    Limits are not part of the fields' types: a job past one is refused in ``plan``, with all its problems at once. Only what
    Airflow itself could not pass on to ``plan`` is refused before: its tasks take no number beyond 64 bits.

    :param gpu_types: the GPU types of the cluster.
    :param examples: the ready-made trainings on offer.
    """
    kinds = tuple(sorted(gpu_types))
    fields = dict(_FIELDS)
    fields["example"] = replace(fields["example"], enum=(NONE, *sorted(examples)))
    for name, field in fields.items():
        types = {field.type} if isinstance(field.type, str) else set(field.type)
        if types & {"integer", "number"}:
            fields[name] = replace(field, minimum=-_LARGEST, maximum=_LARGEST)
    fields["gpu_type"] = replace(
        fields["gpu_type"],
        examples=kinds,
        description=f"One of {', '.join(kinds)}. Empty for any." if kinds else "Empty for any.",
    )
    fields["learners"] = replace(
        fields["learners"], description=f"How many processes train together, each in a pod: 1 to {tenant.max_learners}."
    )
    fields["priority"] = replace(
        fields["priority"],
        description=f"0 to {tenant.priority.max}; higher goes first. Empty for {tenant.priority.default}.",
    )
    place = f"Your bucket is {tenant.bucket}."
    fields["data"] = replace(fields["data"], description=f"{fields['data'].description} {place}")
    return fields


def in_the_forms_words(problems: Iterable[Problem], form: Mapping[str, Any]) -> list[Problem]:
    """Problems with the form's fields in place of the manifest's paths, unless the form held a whole manifest."""
    if form.get("manifest"):
        return list(problems)
    return [replace(one, path=_FIELD_OF_PATH.get(one.path, one.path)) for one in problems]


def manifest_from_form(params: Mapping[str, Any]) -> Manifest:
    """The manifest that a run's parameters describe.

    :param params: by field name; what is missing or ``None`` is at its default.
    :raises ManifestErrors: all problems, by the form's names (by the manifest's own, if one was given as text).
    """
    given = {name: _clean(value) for name, value in params.items()}
    changed = {name: value for name, value in given.items() if _changed(name, value)}
    unknown = [
        Problem("", "", f"the form has no field {str(name)[:60]!r}", nearest(str(name), _FIELDS))
        for name in given
        if name not in _FIELDS and name not in _OTHER_KEYS
    ]
    if given.get("manifest") is not None:
        others = sorted(set(changed) - {"manifest"})
        if others:
            reason = f"can't be given together with {', '.join(others)}"
            unknown.append(Problem("manifest", "", reason, "write everything into the manifest, or leave it empty"))
        if unknown:
            raise ManifestErrors(unknown)
        return load_manifest(given["manifest"])
    problems = [*unknown, *_own_problems(changed)]
    try:
        manifest = load_manifest(_mapping(changed))
    except ManifestErrors as errors:
        known = {problem.path for problem in problems}
        named = in_the_forms_words(errors.problems, given)
        problems += [one for one in named if one.path not in known and not (one.path in _HOLLOW and known & _CHOICES)]
        raise ManifestErrors(problems) from None
    if problems:
        raise ManifestErrors(problems)
    return manifest


_CHOICES = {"example", "framework", "preflight"}
_HOLLOW = {"command", "framework", "name"}


def _clean(value: Any) -> Any:
    """An empty box is the same as one that was not touched."""
    return None if isinstance(value, str) and not value.strip() else value


def _changed(name: str, value: Any) -> bool:
    return name in _FIELDS and value is not None and value != _FIELDS[name].default


def _own_problems(form: Mapping[str, Any]) -> list[Problem]:
    """Problems that the form has and a manifest could not."""
    problems: list[Problem] = []
    if "example" not in form and "command" not in form:
        choice = ", ".join(sorted(EXAMPLES))
        problems.append(Problem("example", "", "is required, or a command of your own is", f"choose one of {choice}"))
    if "command" in form and not {"example", "framework", "image"} & set(form):
        hint = f"choose {', '.join(_FRAMEWORKS)} or {CUSTOM}"
        problems.append(Problem("framework", "", "is required with a command of your own", hint))
    if form.get("framework") == CUSTOM and "image" not in form:
        problems.append(Problem("image", "", f"is required with the framework {CUSTOM}", "write it like name:tag"))
    if "preflight" in form and str(form["preflight"]) not in _PREFLIGHT:
        problems.append(Problem.of("preflight", form["preflight"], "must be auto, on or off"))
    return problems


def _mapping(form: Mapping[str, Any]) -> dict[str, Any]:
    """The form's fields as a manifest; what is wrong with them is left for its validation to say."""
    framework: dict[str, Any] = {}
    if "framework" in form:
        framework["name"] = form["framework"]
    elif "image" in form and "example" not in form:
        framework["name"] = CUSTOM
    if "image" in form:
        framework["image"] = form["image"]
    if "command" in form:
        framework["command"] = form["command"]
    store = {
        part: {"container": form[field]}
        for part, field in (("training_data", "data"), ("training_results", "results"))
        if field in form
    }
    example = form.get("example")
    manifest: dict[str, Any] = {
        "name": form.get("name") or _name_of(example, framework),
        "example": example,
        "framework": framework or None,
        "data_stores": [{"id": "form", "type": "mount_cos", **store}] if store else None,
        "evaluation_metrics": {"type": form["metrics"]} if "metrics" in form else None,
        "checkpoint": {"interval_s": form["checkpoint_interval"]} if "checkpoint_interval" in form else None,
        "preflight": {"enabled": _PREFLIGHT.get(str(form["preflight"]))} if "preflight" in form else None,
    }
    for name in ("code", "learners", "gpus", "gpu_type", "cpus", "memory", "priority", "deadline"):
        manifest[name] = form.get(name)
    return {name: value for name, value in manifest.items() if value is not None}


def _name_of(example: Any, framework: Mapping[str, Any]) -> str:
    name = example if example in EXAMPLES else f"{framework.get('name', 'training')}-job"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(name))[:100] or "job"
