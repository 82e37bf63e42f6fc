"""A program that trains nothing, for tests of the overhead benchmark: it computes for a while and calls it steps.

It speaks the benchmark's protocol and can be told to die, to hang or to lie. Standard library alone.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import socket
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--turns", help="without it, it trains for --seconds and says what it has done")
parser.add_argument("--turns-token")
parser.add_argument("--arm")
parser.add_argument("--seconds", type=float, default=1)
parser.add_argument("--loops", type=int, default=20_000, help="work of a step")
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--die-at-turn", type=int, help="or at the first that it has after this one")
parser.add_argument("--hang-at-turn", type=int, help="or at the first that it has after this one")
parser.add_argument("--lie", choices=["steps", "elapsed", "images", "words", "endless"])
parser.add_argument("--needs-data", action="store_true")
parser.add_argument("--only-arm", help="the arm that dies, hangs or lies")
options, _ = parser.parse_known_args()
is_meant = options.only_arm in (None, options.arm)


# Not interpreted: how fast that is differs by a tenth from process to process, by where its objects happen to lie.
work = bytes(50 * options.loops)


def step():
    return hashlib.sha256(work).digest()


def save():
    directory = os.environ.get("CHECKPOINT_DIR")
    if not directory:
        return 0
    path = pathlib.Path(directory, f"standin-{time.time_ns()}.bin")
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(os.urandom(1 << 20))
    temporary.replace(path)
    return 1


began = time.perf_counter()
for _ in range(5):
    step()
warm_up = time.perf_counter() - began
data = pathlib.Path(os.environ.get("DATA_DIR", "no-data"))
files = sorted(one.name for one in data.iterdir()) if data.is_dir() else []
print(f"data: {len(files)} files; CPUs: {sorted(os.sched_getaffinity(0))}", flush=True)
if options.needs_data and not files:
    sys.exit(4)
if not options.turns:
    print(f"learner {os.environ.get('RANK', '0')} of {os.environ.get('WORLD_SIZE', '1')}", flush=True)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < options.seconds:
        step()
        steps += 1
    elapsed_s = time.perf_counter() - began
    print(
        f"measured images={steps * options.batch} steps={steps} elapsed_s={elapsed_s} cpu_s={time.process_time()} saves=0",
        flush=True,
    )
    sys.exit(0)
host, _, port = options.turns.rpartition(":")
connection = socket.create_connection((host, int(port)))
stream = connection.makefile("rw")


def say(value):
    stream.write(value if isinstance(value, str) else json.dumps(value) + "\n")
    stream.flush()


hello = {"hello": options.turns_token, "arm": options.arm, "pid": os.getpid(), "start_s": {"warm_up": warm_up}}
say({**hello, "images_per_s": 5 * options.batch / warm_up})
told = False
for line in stream:
    asked = json.loads(line)
    if asked.get("end"):
        told = True
        break
    if is_meant and asked["turn"] >= (options.die_at_turn or math.inf):
        print("the stand-in was told to die", flush=True)
        sys.exit(3)
    while is_meant and asked["turn"] >= (options.hang_at_turn or math.inf):
        time.sleep(1)
    for _ in range(asked["settle"]):
        step()
    started_at, began, cpu = time.time(), time.perf_counter(), time.process_time()
    saves = save() if asked["save"] else 0
    save_s = time.perf_counter() - began
    for _ in range(asked["steps"]):
        step()
    answer = {
        "turn": asked["turn"], "steps": asked["steps"], "images": asked["steps"] * options.batch,
        "elapsed_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu, "data_wait_s": 0.0,
        "save_s": save_s if saves else 0.0, "saves": saves, "started_at": started_at,
    }  # fmt: skip
    if is_meant and options.lie == "steps":
        answer["steps"] += 1
    if is_meant and options.lie == "elapsed":
        answer["elapsed_s"] *= 10
    if is_meant and options.lie == "images":
        answer["images"] *= 2
    if is_meant and options.lie == "words":
        answer = "trained well\n"
    if is_meant and options.lie == "endless":
        answer = "x" * 200_000
    say(answer)
sys.exit(0 if told else 75)
