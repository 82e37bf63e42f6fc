"""One container's process, watched by a process of its own, so that its end is kept even while the server is away.

Started with the container's specification (a JSON file) as its only argument; standard library alone, and few imports,
since every container waits for it.
"""

import json
import os
import signal
import sys
import time


def _stamp():
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%09dZ" % (int(now * 1e9) % 1_000_000_000)


def _write(path, value):
    temporary = path + ".tmp"
    with open(temporary, "w") as file:
        file.write(json.dumps(value))
    os.replace(temporary, path)


def _child(spec, out):
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.closerange(3, 256)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    try:
        if spec.get("uid") is not None:
            os.setgroups([])
            os.setgid(spec["uid"])
            os.setuid(spec["uid"])
        os.umask(0o027)
        os.chdir(spec["cwd"])
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        os.write(2, ("exec of %r failed: %s\n" % (spec["argv"][0], error)).encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def main():
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _child(spec, write)
    os.close(write)
    _write(spec["started_file"], {"pid": pid, "shim": os.getpid(), "at": _stamp()})
    log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    rest = b""
    while True:
        chunk = os.read(read, 65536)
        if not chunk:
            break
        rest += chunk
        lines = rest.split(b"\n")
        rest = lines.pop()
        if len(rest) > 1 << 20:
            lines.append(rest)
            rest = b""
        if lines:
            stamp = _stamp().encode()
            os.write(log, b"".join(stamp + b" " + line + b"\n" for line in lines))
    if rest:
        os.write(log, _stamp().encode() + b" " + rest + b"\n")
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    _write(
        spec["ended_file"],
        {"code": 128 - code if code < 0 else code, "signal": -code if code < 0 else None, "at": _stamp()},
    )


if __name__ == "__main__":
    main()
