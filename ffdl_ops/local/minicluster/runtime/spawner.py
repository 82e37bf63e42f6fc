"""Forks a shim for each container that the server asks for, so that a start costs a fork and not an interpreter.

Started by the server as ``python -I -S spawner.py CONFIG``; each line on standard input is the directory of a run, each
line on standard output a shim's message. It ends when the server does; the shims live on. When the configuration names
directories that the tenants' users could not reach (an interpreter below a private home, say), it first makes a mount
namespace of its own, in which an empty directory lies over each closed one and holds what is needed, and only that.
"""

import ctypes
import importlib.util
import json
import os
import signal
import sys
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS = 0x00020000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 1 << 18


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    code = lambda text: text.encode() if text is not None else None  # noqa: E731
    if _LIBC.mount(code(source), code(target), code(kind), flags, code(data)):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def open_view(closed: dict[str, list[str]]) -> None:
    """Give this process, and all that it starts, a view in which some directories can be reached by everyone.

    :param closed: by the closed directory, the directories below it that are to be reachable.
    :raises OSError: when the kernel refuses (no ``CAP_SYS_ADMIN``).
    """
    if _LIBC.unshare(_NEWNS):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    _mount("none", "/", None, _REC | _PRIVATE)
    for directory, wanted in closed.items():
        handles = [(path, os.open(path, os.O_PATH)) for path in wanted]
        _mount("tmpfs", directory, "tmpfs", 0, "mode=0711,size=1m")
        for path, handle in handles:
            os.makedirs(path, mode=0o711, exist_ok=True)
            _mount(f"/proc/self/fd/{handle}", path, None, _BIND | _REC)
            os.close(handle)


def _load_shim() -> Any:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim.py")
    spec = importlib.util.spec_from_file_location("minicluster_shim", path)
    if spec is None or spec.loader is None:
        raise OSError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Serve until standard input ends."""
    config = json.loads(sys.argv[1])
    if config.get("closed"):
        open_view(config["closed"])
    shim = _load_shim()
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the server decides about the end, by closing the pipe
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, json.dumps({"ready": os.getpid()}).encode() + b"\n")
    for line in sys.stdin.buffer:
        if os.fork() == 0:
            if os.fork():
                os._exit(
                    0
                )  # so that the shim is nobody's child: who kills the server with its children leaves it alone
            os.close(0)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                shim.Shim(line.decode().strip(), 1).run()
            finally:
                os._exit(0)


if __name__ == "__main__":
    main()
