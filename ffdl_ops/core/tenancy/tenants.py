"""Tenants: who shares the platform, and how much each may use. Written by the administrator in ``config/tenants.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ffdl_ops.core.jobs.fields import Container, Cpus, Duration, GpuType, Label, Memory, Section, number, refuse, text
from ffdl_ops.core.jobs.ids import MLFLOW_BUCKET, TENANT_NAME
from ffdl_ops.core.jobs.manifest import DEFAULT_PRIORITY, MAX_PRIORITY
from ffdl_ops.core.jobs.problems import Problem, Problems
from ffdl_ops.core.jobs.sections import MAX_LEARNERS, Whole
from ffdl_ops.core.jobs.translate import problems_of
from ffdl_ops.core.jobs.units import parse_cpu, parse_duration, parse_memory
from ffdl_ops.core.jobs.yamltext import MAX_CONFIGURATION_BYTES, load_yaml

__all__ = ["ConfigErrors", "PerUser", "Priority", "Tenant", "Tenants"]

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_COUNT = Whole(0, 1_000_000)
_ONE_OR_MORE = Whole(1, 1_000_000)
_LEARNERS = Whole(1, MAX_LEARNERS)
_PRIORITY = Whole(0, MAX_PRIORITY)
_WEIGHT = (BeforeValidator(number(0.001, 1000)),)


class ConfigErrors(Problems):
    """A configuration with problems: all of them, in ``problems``."""


def _check_name(value: Any) -> str:
    name = text(64)(value)
    if not TENANT_NAME.fullmatch(name):
        hint = "a small letter first, then small letters, digits and '-' (not at the end), 30 at most"
        raise refuse("is no tenant's name", hint)
    return name


def _check_bucket(value: Any) -> str:
    name = text(63)(value)
    if not _BUCKET.fullmatch(name) or ".." in name:
        hint = "3 to 63 small letters, digits, '-' and '.', the first and the last a letter or digit"
        raise refuse("is no name of a bucket", hint)
    if name == MLFLOW_BUCKET:
        raise refuse("is the platform's own bucket, for MLflow", "choose another; a tenant named mlflow names its `bucket`")
    return name


def _check_cohort(value: Any) -> str:
    name = text(64)(value)
    if not TENANT_NAME.fullmatch(name):
        raise refuse("is no cohort's name", "a small letter first, then small letters, digits and '-', 30 at most")
    return name


def _check_pattern(value: Any) -> str:
    pattern = text(255)(value)
    if not set(pattern) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@*"):
        raise refuse("is no image name or pattern", "like 'registry/team/*' or 'name:1.*'")
    return pattern


class Priority(Section):
    """Which priority a tenant's jobs have by default, and the highest that they may ask for."""

    default: Annotated[int, *_PRIORITY] = DEFAULT_PRIORITY
    max: Annotated[int, *_PRIORITY] = MAX_PRIORITY

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.default > self.max:
            raise refuse(f"default is {self.default}, more than max, which is {self.max}")
        return self


class PerUser(Section):
    """What each of a tenant's users may have at the same time."""

    max_running: Annotated[int | None, *_ONE_OR_MORE] = None
    max_queued: Annotated[int | None, *_ONE_OR_MORE] = None
    max_gpus: Annotated[int | None, *_ONE_OR_MORE] = None


class Tenant(Section):
    """One tenant. Limits count what its jobs hold at the same time."""

    name: Annotated[str, BeforeValidator(_check_name)]
    title: Label | None = None
    gpu_quota: dict[GpuType, Annotated[int, *_COUNT]] = {}
    weight: Annotated[float, *_WEIGHT] = 1.0
    cohort: Annotated[str | None, BeforeValidator(_check_cohort)] = None
    borrow_limit: dict[GpuType, Annotated[int, *_COUNT]] | None = None
    lend_limit: dict[GpuType, Annotated[int, *_COUNT]] | None = None
    min_run_time: Duration | None = None
    max_run_time: Duration | None = None
    cpu_quota: Cpus | None = None
    memory_quota: Memory | None = None
    max_running: Annotated[int | None, *_ONE_OR_MORE] = None
    max_queued: Annotated[int, *_ONE_OR_MORE] = 1000
    max_learners: Annotated[int, *_LEARNERS] = MAX_LEARNERS
    max_job_gpus: Annotated[int | None, *_ONE_OR_MORE] = None
    per_user: PerUser = PerUser()
    bucket: Annotated[Container, BeforeValidator(_check_bucket)] = ""
    priority: Priority = Priority()
    frameworks: list[Annotated[str, BeforeValidator(lambda value: text(63)(value).lower())]] | None = None
    images: list[Annotated[str, BeforeValidator(_check_pattern)]] | None = None
    data_buckets: Annotated[list[Annotated[Container, BeforeValidator(_check_bucket)]], Field(max_length=1000)] = []

    @model_validator(mode="before")
    @classmethod
    def _name_bucket(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("bucket") is not None:
            return data
        name = data.get("name")
        named = isinstance(name, str) and TENANT_NAME.fullmatch(name)
        return {**data, "bucket": f"ffdl-{name}"} if named else data

    @property
    def cpu_quota_millis(self) -> int | None:
        """Processors that its jobs may hold, in thousandths; ``None`` for no limit."""
        return None if self.cpu_quota is None else parse_cpu(self.cpu_quota)

    @property
    def memory_quota_bytes(self) -> int | None:
        """Memory that its jobs may hold, in bytes; ``None`` for no limit."""
        return None if self.memory_quota is None else parse_memory(self.memory_quota)

    @property
    def min_run_seconds(self) -> float:
        """How long a job of it runs at least before it is preempted for somebody else, in seconds."""
        return 0.0 if self.min_run_time is None else parse_duration(self.min_run_time)

    @property
    def max_run_seconds(self) -> float | None:
        """How long a job of it may take in all, in seconds; ``None`` for no limit."""
        return None if self.max_run_time is None else parse_duration(self.max_run_time)

    @property
    def max_running_per_user(self) -> int | None:
        """Jobs of one user that may hold places at the same time; ``None`` for no limit."""
        return self.per_user.max_running

    @property
    def max_gpus_per_user(self) -> int | None:
        """GPUs that one user's jobs may hold at the same time; ``None`` for no limit."""
        return self.per_user.max_gpus

    @property
    def limits(self) -> dict[str, Any]:
        """What it may hold and how it shares, as plain values; what a change of is worth an audit line."""
        return self.model_dump(mode="json", exclude={"name", "title", "bucket", "frameworks", "images", "data_buckets"})

    def may_use_bucket(self, bucket: str) -> bool:
        """Whether its jobs may read from and write to a bucket with the tenant's own credentials."""
        return bucket == self.bucket or bucket in self.data_buckets


class _TenantsFile(Section):
    """The shape of ``config/tenants.yaml``."""

    tenants: Annotated[list[Tenant], Field(min_length=1)]


class Tenants:
    """All tenants, in the configuration's order.

    :param tenants: with names and buckets of their own.
    """

    def __init__(self, tenants: Mapping[str, Tenant]) -> None:
        self._by_name = dict(tenants)

    @classmethod
    def load(cls, text_or_mapping: str | Mapping[str, Any]) -> Tenants:
        """The tenants of a configuration: a YAML text, or a mapping that was read already.

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
            parsed = _TenantsFile.model_validate(data)
        except ValidationError as error:
            raise ConfigErrors([*problems_of(error, _TenantsFile, data), *_across(_raw(data))]) from None
        problems = _across([tenant.model_dump() for tenant in parsed.tenants])
        if problems:
            raise ConfigErrors(problems)
        return cls({tenant.name: tenant for tenant in parsed.tenants})

    def most_gpus(self, name: str) -> dict[str, int]:
        """GPUs by type that a tenant could hold if nobody else held any: its quota, and what its cohort lends it."""
        tenant = self[name]
        most = dict(tenant.gpu_quota)
        others = [one for one in self if one.cohort is not None and one.cohort == tenant.cohort and one is not tenant]
        for kind in {kind for one in others for kind in one.gpu_quota}:
            lent = sum(min(one.gpu_quota.get(kind, 0), (one.lend_limit or one.gpu_quota).get(kind, 0)) for one in others)
            if tenant.borrow_limit is not None:
                lent = min(lent, tenant.borrow_limit.get(kind, 0))
            most[kind] = most.get(kind, 0) + lent
        return most

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Tenant:
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(sorted(self._by_name))
            raise ConfigErrors(
                [Problem.of("tenant", name, "is no tenant of this platform", f"there are {known}")]
            ) from None


def _raw(data: Any) -> list[Mapping[str, Any]]:
    tenants = data.get("tenants") if isinstance(data, Mapping) else None
    return [item for item in tenants if isinstance(item, Mapping)] if isinstance(tenants, list) else []


def _across(tenants: list[Any]) -> list[Problem]:
    """What is wrong between tenants, or between fields of one."""
    return [*_duplicates(tenants), *_lending(tenants)]


def _lending(tenants: list[Any]) -> list[Problem]:
    """Limits of lending that limit nothing."""
    problems: list[Problem] = []
    for position, tenant in enumerate(tenants):
        for field in ("borrow_limit", "lend_limit"):
            if tenant.get(field) is not None and tenant.get("cohort") is None:
                path = f"tenants[{position}].{field}"
                hint = "name a cohort, or leave it out"
                problems.append(Problem.of(path, tenant[field], "has no effect without a cohort", hint))
        quota, lent = tenant.get("gpu_quota"), tenant.get("lend_limit")
        if not isinstance(quota, Mapping) or not isinstance(lent, Mapping):
            continue
        for kind, count in lent.items():
            have = quota.get(kind, 0)
            if isinstance(count, int) and isinstance(have, int) and count > have:
                path = f"tenants[{position}].lend_limit.{kind}"
                problems.append(Problem.of(path, count, f"is more than its quota of {kind}, which is {have}"))
    return problems


def _duplicates(tenants: list[Any]) -> list[Problem]:
    """Names and buckets that two tenants share: each must be one tenant's own."""
    problems: list[Problem] = []
    for field in ("name", "bucket"):
        seen: dict[str, int] = {}
        for position, tenant in enumerate(tenants):
            value = tenant.get(field)
            if not isinstance(value, str):
                continue
            if value in seen:
                reason = f"is the {field} of tenants[{seen[value]}] already"
                problems.append(Problem.of(f"tenants[{position}].{field}", value, reason, "each tenant has its own"))
            seen.setdefault(value, position)
    return problems
