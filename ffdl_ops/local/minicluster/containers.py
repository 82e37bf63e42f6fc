"""Containers as processes: built from a pod's specification, started through the shim, ended by signals."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from ffdl_ops.local.minicluster.images import Image
from ffdl_ops.local.minicluster.volumes import Mounts

__all__ = ["ConfigError", "Container"]

_SHIM = Path(__file__).with_name("shim.py")
_POLL_S = 0.1


class ConfigError(Exception):
    """A container whose configuration names what is not there."""


class Container:
    """One container of one pod.

    :param spec: its specification.
    :param directory: where its files are (log, started, ended).
    """

    def __init__(self, spec: Mapping[str, Any], directory: Path) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.directory = directory
        self.log = directory / "log"
        self.oom = False

    # -- state that is on disk ------------------------------------------------------------------------------------
    def started(self) -> dict[str, Any] | None:
        """Pid and start time, once it was started."""
        return _read(self.directory / "started")

    def ended(self) -> dict[str, Any] | None:
        """Exit code, signal and time, once it has ended."""
        return _read(self.directory / "ended")

    def start(self, argv: list[str], env: Mapping[str, str], cwd: Path, uid: int | None) -> None:
        """Start it, unless it was started before (by an earlier life of this server)."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (self.directory / "spec").exists():
            return
        spec = {
            "argv": argv, "env": dict(env), "cwd": str(cwd), "uid": uid, "log": str(self.log),
            "started_file": str(self.directory / "started"), "ended_file": str(self.directory / "ended"),
        }  # fmt: skip
        path = self.directory / "spec"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(spec, file)
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-E", str(_SHIM), str(path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, env={}, cwd="/",
        )  # fmt: skip

    async def wait(self, memory_limit: int | None = None) -> dict[str, Any]:
        """Wait for its end; past its memory limit it is killed. Returns the end's facts."""
        beat = 0
        while True:
            ended = self.ended()
            if ended is not None:
                if self.oom:
                    ended = {**ended, "reason": "OOMKilled"}
                return ended
            started = self.started()
            if started is not None and beat % 3 == 0:
                if memory_limit is not None and self._memory() > memory_limit:
                    self.oom = True
                    (self.directory / "oom").touch()
                    self.signal(signal.SIGKILL)
                elif not psutil.pid_exists(started["shim"]) and self.ended() is None:
                    # The shim was killed: nobody will ever write how the process ended.
                    self.signal(signal.SIGKILL)
                    return {"code": 137, "signal": 9, "at": None, "reason": "ContainerStatusUnknown"}
            beat += 1
            await asyncio.sleep(_POLL_S if beat > 20 else 0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGTERM to the main process, as a runtime does; SIGKILL to all of them."""
        started = self.started()
        if started is None or self.ended() is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number == signal.SIGKILL:
                for child in self._family(started["pid"]):
                    with contextlib.suppress(psutil.Error):
                        child.kill()
                os.killpg(started["pid"], number)
            else:
                os.kill(started["pid"], number)

    def _family(self, pid: int) -> list[psutil.Process]:
        try:
            parent = psutil.Process(pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.Error:
            return []

    def _memory(self) -> int:
        """Resident memory of the whole family, in bytes."""
        started = self.started()
        total = 0
        for process in self._family(started["pid"]) if started else []:
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total


def environment_of(
    spec: Mapping[str, Any], pod: Mapping[str, Any], image: Image, mounts: Mounts, values: Mapping[str, Any]
) -> dict[str, str]:
    """A container's environment: the image's, then what the pod says, with mount paths translated.

    :raises ConfigError: when it names a secret, a config map or a key that is not there.
    """
    env = dict(image.env)
    for source in spec.get("envFrom") or []:
        for kind, reference in (("secrets", "secretRef"), ("configmaps", "configMapRef")):
            if reference in source:
                name = source[reference]["name"]
                data = values[kind].get(name)
                if data is None:
                    if source[reference].get("optional"):
                        continue
                    raise ConfigError(f'{kind[:-1]} "{name}" not found')
                env.update({key: _text(kind, value) for key, value in data.items()})
    for entry in spec.get("env") or []:
        if "valueFrom" in entry:
            value = _value_from(entry["valueFrom"], pod, values)
            if value is not None:
                env[entry["name"]] = value
        else:
            env[entry["name"]] = _expand(entry.get("value") or "", env)
    return {name: mounts.text(value) for name, value in env.items()}


def _value_from(source: Mapping[str, Any], pod: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    for kind, reference in (("secrets", "secretKeyRef"), ("configmaps", "configMapKeyRef")):
        if reference in source:
            name, key = source[reference]["name"], source[reference]["key"]
            data = values[kind].get(name)
            if data is None or key not in data:
                if source[reference].get("optional"):
                    return None
                what = f'{kind[:-1]} "{name}" not found' if data is None else f"couldn't find key {key} in {name}"
                raise ConfigError(what)
            return _text(kind, data[key])
    if "fieldRef" in source:
        path = source["fieldRef"]["fieldPath"]
        found = path.partition("['")
        value: Any = pod
        for part in found[0].split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if found[1]:
            value = (value or {}).get(found[2].rstrip("']"))
        return "" if value is None else str(value)
    return ""


def _text(kind: str, value: str) -> str:
    return base64.b64decode(value).decode("utf-8", "replace") if kind == "secrets" else value


def _expand(value: str, env: Mapping[str, str]) -> str:
    """Kubernetes' own expansion of `$(NAME)`; `$$(` is a literal `$(`."""
    out, rest = "", value
    while rest:
        before, sign, after = rest.partition("$")
        out += before
        if not sign:
            break
        if after.startswith("$("):
            out, rest = out + "$", after[1:]
        elif after.startswith("(") and ")" in after and after[1 : after.index(")")] in env:
            name = after[1 : after.index(")")]
            out, rest = out + env[name], after[after.index(")") + 1 :]
        else:
            out, rest = out + "$", after
    return out


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return None
