"""What else the machine did during a turn: other load and steal on the training's CPUs; clocks and throttling, as far as told."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Worked", "Load", "Share", "facts"]

_TICKS = os.sysconf("SC_CLK_TCK")
_CPUS = Path("/sys/devices/system/cpu")
_IDLE, _IOWAIT, _STEAL = 3, 4, 7  # places in /proc/stat's line of a CPU; guest time (8, 9) is within user and nice


@dataclass(frozen=True)
class Share:
    """Parts of the time of some CPUs, 0 to 1.

    :param foreign: used by others than the processes that were named.
    :param stolen: taken away by the machine's host.
    """

    foreign: float
    stolen: float


@dataclass(frozen=True)
class Worked:
    """The CPUs' own count of their time, in seconds: at work (steal left out), and stolen."""

    busy_s: float
    stolen_s: float


class Load:
    """Measures from its making on.

    :param cpus: which CPUs.
    :param own: the pids of the processes that are no others; asked at the beginning and at the end.
    """

    def __init__(self, cpus: Collection[int], own: Callable[[], Iterable[int]]) -> None:
        self._cpus, self._own = tuple(cpus), own
        self._since = time.monotonic()
        self._before = _times(self._cpus)
        self._used = {pid: _used_s(pid) for pid in own()}

    def share(self) -> Share | None:
        """The shares since then; ``None`` where the kernel does not tell."""
        now = _times(self._cpus)
        passed = (time.monotonic() - self._since) * len(self._cpus)
        if self._before is None or now is None or passed <= 0:
            return None
        # A process that came meanwhile has used all that it has; what one used that has gone since is counted as others'.
        own = sum(_used_s(pid) - self._used.get(pid, 0.0) for pid in self._own())
        foreign = (now.busy_s - self._before.busy_s - own) / passed
        stolen = (now.stolen_s - self._before.stolen_s) / passed
        return Share(min(1.0, max(0.0, foreign)), min(1.0, max(0.0, stolen)))


def facts(cpus: Collection[int]) -> dict[str, Any]:
    """The machine as it is now, for people and validity checks; what can't be read is left out.

    :param cpus: those that training runs on.
    """
    found: dict[str, Any] = {
        "cpus": os.cpu_count(), "training_cpus": sorted(cpus), "model": _model(), "kernel": platform.release(),
        "load": [round(one, 2) for one in os.getloadavg()],
    }  # fmt: skip
    clocks = {
        "mhz": [value / 1000 for value in _numbers(cpus, "cpufreq/scaling_cur_freq")] or _cpuinfo_mhz(cpus),
        "mhz_max": [value / 1000 for value in _numbers(cpus, "cpufreq/cpuinfo_max_freq")],
        "throttled": list(_numbers(cpus, "thermal_throttle/core_throttle_count")),
    }
    found |= {name: values for name, values in clocks.items() if values}
    with contextlib.suppress(OSError):
        found["governor"] = (_CPUS / f"cpu{min(cpus)}" / "cpufreq/scaling_governor").read_text().strip()
    gpus = list(_gpus())
    return {**found, "gpus": gpus} if gpus else found


def _times(cpus: Collection[int]) -> Worked | None:
    """The count of these CPUs together."""
    busy = stolen = 0.0
    seen = set()
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, *values = line.split()
        if not name.startswith("cpu") or not name[3:].isdigit() or int(name[3:]) not in cpus:
            continue
        seen.add(int(name[3:]))
        ticks = [int(value) for value in values]
        stolen += ticks[_STEAL] / _TICKS
        busy += (sum(ticks[:_STEAL]) - ticks[_IDLE] - ticks[_IOWAIT]) / _TICKS
    return Worked(busy, stolen) if seen == set(cpus) else None


def _used_s(pid: int) -> float:
    """Processor time of a process; 0 when it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _numbers(cpus: Collection[int], name: str) -> Iterator[int]:
    for cpu in sorted(cpus):
        with contextlib.suppress(OSError, ValueError):
            yield int((_CPUS / f"cpu{cpu}" / name).read_text())


def _cpuinfo() -> list[Mapping[str, str]]:
    try:
        blocks = Path("/proc/cpuinfo").read_text().strip().split("\n\n")
    except OSError:
        return []
    pairs = ([line.partition(":") for line in block.splitlines()] for block in blocks)
    return [{name.strip(): value.strip() for name, _, value in block} for block in pairs]


def _cpuinfo_mhz(cpus: Collection[int]) -> list[float]:
    return [float(one["cpu MHz"]) for one in _cpuinfo() if "cpu MHz" in one and int(one.get("processor", -1)) in cpus]


def _model() -> str:
    return next((one["model name"] for one in _cpuinfo() if "model name" in one), platform.machine())


def _gpus() -> Iterator[dict[str, Any]]:
    """What NVML says of each GPU: clocks in MHz, and the reasons for which they are held down, as its bits."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver or no GPU: there is nothing to tell
        return
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            with contextlib.suppress(pynvml.NVMLError):
                yield {
                    "name": str(pynvml.nvmlDeviceGetName(device)),
                    "sm_mhz": int(pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM)),
                    "sm_mhz_max": int(pynvml.nvmlDeviceGetMaxClockInfo(device, pynvml.NVML_CLOCK_SM)),
                    "throttle_reasons": int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)),
                    "celsius": int(pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU)),
                }
    finally:
        pynvml.nvmlShutdown()
