"""The platform's own settings, written by the administrator in ``config/platform.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, ValidationError, model_validator

from ffdl_ops.core.jobs.fields import Cpus, GpuType, ImageName, Memory, Section, Tag, check_image, number, refuse, text
from ffdl_ops.core.jobs.manifest import DEFAULT_CPUS, DEFAULT_MEMORY
from ffdl_ops.core.jobs.problems import Problems
from ffdl_ops.core.jobs.sections import CUSTOM, TRUTH, Whole
from ffdl_ops.core.jobs.translate import problems_of
from ffdl_ops.core.jobs.yamltext import MAX_CONFIGURATION_BYTES, load_yaml
from ffdl_ops.core.oncluster import OnCluster
from ffdl_ops.core.scheduling.model import Level, Strategy
from ffdl_ops.core.scheduling.policy import Order, Policy
from ffdl_ops.core.tenancy.tenants import ConfigErrors

if TYPE_CHECKING:
    from ffdl_ops.core.jobs.manifest import Manifest

__all__ = ["Cache", "Images", "PlatformConfig", "Poll", "Ports", "Scheduler", "Size", "Timeouts", "Volume", "Volumes"]

_PORT = Whole(1, 65_535)
_USER = Whole(1, 2**31 - 1)
_SECONDS = Whole(1, 86_400)
_WAITING = (BeforeValidator(number(0, 31_536_000)),)
_POLL = (BeforeValidator(number(0.05, 600)),)


class Images(Section):
    """The image of each framework, and of the staging helper. Further frameworks may be added by name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[str, BeforeValidator(check_image)]]

    pytorch: ImageName = "ffdl/learner-pytorch:0.1"
    tensorflow: ImageName = "ffdl/learner-tensorflow:0.1"
    helper: ImageName = "ffdl/helper:0.1"

    def of(self, framework: str) -> str | None:
        """The image of a framework, if there is one."""
        if framework == "helper":
            return None
        image = getattr(self, framework, None) if framework in type(self).model_fields else None
        return image or (self.__pydantic_extra__ or {}).get(framework)

    @property
    def frameworks(self) -> list[str]:
        """The frameworks that have an image."""
        return sorted({*type(self).model_fields, *(self.__pydantic_extra__ or {})} - {"helper"})


def _check_path(value: Any) -> str:
    path = text(512)(value)
    if not path.startswith("/") or ".." in path.split("/"):
        raise refuse("must be an absolute path without '..'")
    return path.rstrip("/") or "/"


class Volume(Section):
    """Where pods' shared files are: a directory of the node, or a claim."""

    kind: Literal["hostPath", "persistentVolumeClaim"] = "hostPath"
    path: Annotated[str | None, BeforeValidator(_check_path)] = None
    claim: Annotated[str | None, BeforeValidator(text(253))] = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted, other = ("path", "claim") if self.kind == "hostPath" else ("claim", "path")
        if getattr(self, wanted) is None:
            raise refuse(f"a volume of kind {self.kind} needs {wanted}")
        if getattr(self, other) is not None:
            raise refuse(f"{other} has no effect with kind {self.kind}", "remove it")
        return self


_DEFAULT_VOLUME = Volume(kind="hostPath", path="/var/lib/ffdl/volumes")


class Volumes(Section):
    """The job's volume (code, checkpoints, results, logs) and the tenants' dataset cache."""

    job: Volume = _DEFAULT_VOLUME
    cache: Volume = _DEFAULT_VOLUME


class Cache(Section):
    """What a tenant's dataset cache keeps; 0 is without limit."""

    max_gib: Annotated[float, BeforeValidator(number(0, 1_000_000))] = 100.0
    max_age_days: Annotated[float, BeforeValidator(number(0, 36_500))] = 30.0

    @property
    def max_bytes(self) -> float:
        """The same in bytes."""
        return self.max_gib * 2**30

    @property
    def max_age_s(self) -> float:
        """The same in seconds."""
        return self.max_age_days * 86_400


class Timeouts(Section):
    """How long things may take, in whole seconds. None of them counts the wait for GPUs."""

    startup_seconds: Annotated[int, *_SECONDS] = 300
    image_seconds: Annotated[int, *_SECONDS] = 60
    unschedulable_seconds: Annotated[int, *_SECONDS] = 120
    rendezvous_seconds: Annotated[int, *_SECONDS] = 120
    grace_seconds: Annotated[int, *Whole(6, 3600)] = 30
    helper_seconds: Annotated[int, *Whole(1, 604_800)] = 21_600


class Poll(Section):
    """How often waiting triggers look, in seconds."""

    gang_seconds: Annotated[float, *_POLL] = 0.5
    admission_seconds: Annotated[float, *_POLL] = 1.0
    monitor_seconds: Annotated[float, *_POLL] = 2.0


class Scheduler(Section):
    """How the queue is served. Times are in seconds; 0 is never."""

    policy: Literal["fair", "fifo", "sjf", "srtf", "las"] = "fair"
    backfill: Annotated[bool | None, *TRUTH] = None
    reserve_after_seconds: Annotated[float, *_WAITING] = 900.0
    age_limit_seconds: Annotated[float, *_WAITING] = 86_400.0
    strategy: Literal["pack", "spread", "bsa"] = "pack"
    within: Literal["node", "rack", "cluster"] = "node"
    relax_after_seconds: Annotated[float, *_WAITING] = 60.0
    rack_label: Annotated[str, BeforeValidator(text(253))] = "ffdl.dev/rack"

    @property
    def rules(self) -> Policy:
        """The same for the scheduling code."""
        return Policy(
            order=Order(self.policy),
            backfill=self.backfill,
            reserve_after_s=self.reserve_after_seconds or None,
            age_limit_s=self.age_limit_seconds or None,
            strategy=Strategy(self.strategy),
            level=Level[self.within.upper()],
            relax_s=self.relax_after_seconds or None,
        )


class Size(Section):
    """What a learner gets when its manifest doesn't say."""

    cpus: Cpus = DEFAULT_CPUS
    memory: Memory = DEFAULT_MEMORY


class Ports(Section):
    """Where the embedded services listen, on loopback."""

    airflow: Annotated[int, *_PORT] = 8080
    mlflow: Annotated[int, *_PORT] = 5000
    s3: Annotated[int, *_PORT] = 9000
    minicluster: Annotated[int, *_PORT] = 6443

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        ports = list(self.model_dump().values())
        if len(set(ports)) < len(ports):
            raise refuse("two services have the same port")
        return self


class PlatformConfig(Section):
    """One installation."""

    profile: Literal["embedded", "kubernetes"] = "embedded"
    isolation: Literal["best_effort", "required"] = "best_effort"
    images: Images = Images()
    versions: dict[str, dict[str, Tag]] = {}
    gpu_types: list[GpuType] = ["K80", "V100"]
    sizes: dict[str, Size] = {}
    volumes: Volumes = Volumes()
    cache: Cache = Cache()
    run_as_user: Annotated[int, *_USER] = 1000
    timeouts: Timeouts = Timeouts()
    poll: Poll = Poll()
    scheduler: Scheduler = Scheduler()
    cluster: OnCluster = OnCluster()
    ports: Ports = Ports()

    @classmethod
    def load(cls, text_or_mapping: str | Mapping[str, Any]) -> PlatformConfig:
        """The settings in a YAML text, or in a mapping that was read already.

        :raises ConfigErrors: holding every problem.
        """
        try:
            data = (
                load_yaml(text_or_mapping, MAX_CONFIGURATION_BYTES)
                if isinstance(text_or_mapping, str)
                else text_or_mapping
            )
        except Problems as refused:
            raise ConfigErrors(refused.problems) from None
        try:
            return cls.model_validate({} if data is None else data)
        except ValidationError as error:
            raise ConfigErrors(problems_of(error, cls, data)) from None

    def image_for(self, manifest: Manifest) -> str:
        """The image that a job's learners run.

        :raises KeyError: when the platform has none for its framework or version; `check_job` refuses such a job.
        """
        image = self.find_image(manifest)
        if image is None:
            raise KeyError(manifest.framework.name)
        return image

    def find_image(self, manifest: Manifest) -> str | None:
        """As `image_for`; ``None`` when the platform has no such image."""
        framework = manifest.framework
        if framework.image:
            return framework.image
        if framework.name == CUSTOM:
            return framework.version
        base = self.images.of(framework.name)
        if base is None:
            return None
        if framework.image_tag:
            return f"{_repository(base)}:{framework.image_tag}"
        known = self.versions.get(framework.name)
        if framework.version is None or known is None and framework.version == "latest":
            return base
        tag = framework.version if known is None else known.get(framework.version)
        return None if tag is None else f"{_repository(base)}:{tag}"

    def size_for(self, framework: str) -> Size:
        """What a learner of a framework gets unless its manifest says otherwise."""
        return self.sizes.get(framework) or self.sizes.get("default") or Size()


def _repository(image: str) -> str:
    """An image's name without tag and digest."""
    name = image.split("@", 1)[0]
    head, slash, tail = name.rpartition("/")
    return f"{head}{slash}{tail.split(':', 1)[0]}"
