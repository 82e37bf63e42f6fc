"""`python -m ffdl_ops.pod.staging COMMAND`: runs one staging command and leaves its result as one JSON line.

Exit codes: 0 done; 64 bad specification; 65 data missing, changed or unsafe; 66 credentials refused; 69 store unreachable;
74 local disk full or unusable; 143 stopped; 1 a defect of this program (its trace is in the log).
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from typing import Any

from ffdl_ops.adapters.storage.errors import BadSpec, exit_code
from ffdl_ops.core.errors import FfdlError
from ffdl_ops.pod.staging.report import redacted, say, write_result
from ffdl_ops.pod.staging.spec import StageSpec, load_spec

__all__ = ["main"]

COMMANDS = ("fetch", "prepare", "sidecar", "checkpoint", "store", "remove")


def main(argv: list[str]) -> int:
    """Run a command.

    :param argv: the command's name.
    :returns: the exit code.
    """
    started = time.monotonic()
    result: dict[str, Any] = {"ok": False, "error": None, "bytes": 0, "files": 0, "cached": False}
    result["restored_generation"] = None
    spec: StageSpec | None = None
    try:
        if len(argv) != 1 or argv[0] not in COMMANDS:
            raise BadSpec(f"Give one command of {', '.join(COMMANDS)}, not {' '.join(argv) or 'nothing'}.")
        spec = load_spec(os.environ.get("FFDL_STAGE_SPEC"), argv[0])
        if argv[0] != "sidecar":
            signal.signal(signal.SIGTERM, _stop)
        result |= _run(spec)
        code = int(result.pop("code", 0))
        result["ok"] = code == 0
    except FfdlError as error:
        code, result["error"] = exit_code(error), redacted(str(error))
    except SystemExit as end:
        code, result["error"] = int(end.code or 0), "stopped by SIGTERM"
    except Exception as error:
        print(redacted(traceback.format_exc()), file=sys.stderr, flush=True)
        code, result["error"] = exit_code(error), redacted(f"{type(error).__name__}: {error}")
    if code and result["error"]:
        # What is to be removed must not get a log in it.
        say(None if argv == ["remove"] else spec, f"failed ({code}): {result['error']}")
    write_result({**result, "code": code, "seconds": round(time.monotonic() - started, 3)})
    return code


def _run(spec: StageSpec) -> dict[str, Any]:
    if spec.command == "prepare":
        from ffdl_ops.pod.staging.prepare import prepare

        return prepare(spec)
    if spec.command == "fetch":
        from ffdl_ops.pod.staging.fetch import fetch

        return fetch(spec)
    if spec.command == "remove":
        from ffdl_ops.pod.staging.removal import remove

        return remove(spec)
    if spec.command == "store":
        from ffdl_ops.pod.staging.store import store_all

        return store_all(spec)
    if spec.command == "checkpoint":
        from ffdl_ops.pod.staging.sidecar import take_last

        return take_last(spec)
    from ffdl_ops.pod.staging.sidecar import run

    return run(spec)


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
