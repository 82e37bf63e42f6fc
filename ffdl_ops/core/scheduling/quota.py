"""What a tenant may still take: GPUs by type, CPU, memory and jobs at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ffdl_ops.core.scheduling.model import GangRequest, Grant, TenantLimits

__all__ = ["Shortage", "Usage"]


@dataclass(frozen=True)
class Shortage:
    """A limit of the tenant that leaves no room for the gang.

    :param what: what is limited, in a person's words ("V100 GPUs", "CPU cores", …).
    :param limit: the limit; `held` what its jobs hold; `needed` what the gang needs at least. All in `unit`.
    :param gpu_type: the GPU type that is short; ``None`` when the limit holds for the whole tenant.
    """

    what: str
    limit: float
    held: float
    needed: float
    gpu_type: str | None = None

    @property
    def never(self) -> bool:
        """Whether the gang is larger than the limit itself, so that waiting can't help."""
        return self.needed > self.limit

    def __str__(self) -> str:
        return f"{self.held:g} of {self.limit:g} {self.what} are held and {self.needed:g} are needed"


@dataclass
class Usage:
    """What one tenant holds now.

    :param running: jobs with a live lease.
    """

    gpus: dict[str, int] = field(default_factory=dict)
    cpu_millis: int = 0
    memory_bytes: int = 0
    running: int = 0

    def add(self, grant: Grant) -> None:
        """Count one more grant."""
        if grant.gpus:
            kind = grant.gpu_type or ""
            self.gpus[kind] = self.gpus.get(kind, 0) + grant.gpus_total
        self.cpu_millis += grant.cpu_millis * grant.learners
        self.memory_bytes += grant.memory_bytes * grant.learners
        self.running += 1

    def shortage(
        self, request: GangRequest, learners: int, gpu_type: str | None, tenant: TenantLimits
    ) -> Shortage | None:
        """The first limit that so many learners would pass, if any.

        :param gpu_type: the type they would take; ``None`` when they take no GPU.
        """
        checks = [
            Shortage("running jobs", _limit(tenant.max_running), self.running, 1),
            Shortage(
                "CPU cores",
                _limit(tenant.cpu_quota_millis) / 1000,
                self.cpu_millis / 1000,
                request.cpu_millis * learners / 1000,
            ),
            Shortage(
                "GiB of memory",
                _limit(tenant.memory_quota_bytes) / 2**30,
                self.memory_bytes / 2**30,
                request.memory_bytes * learners / 2**30,
            ),
        ]
        if gpu_type is not None:
            kind = f"{gpu_type or 'unnamed'} GPUs"
            quota = tenant.gpu_quota.get(gpu_type, 0)
            checks.append(Shortage(kind, quota, self.gpus.get(gpu_type, 0), request.gpus * learners, gpu_type))
        return next((one for one in checks if one.held + one.needed > one.limit), None)


def _limit(value: int | None) -> float:
    return float("inf") if value is None else value
