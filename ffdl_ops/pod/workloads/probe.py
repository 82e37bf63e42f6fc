"""A tiny program that counts steps: it checkpoints, resumes, stops when asked, and fails in the ways its flags say.

For trying out, testing and measuring the platform: standard library alone, so that its first step comes at once. Each rank
keeps a checkpoint of its own (`probe-<rank>.json`); without a CHECKPOINT_DIR it keeps none.
"""

import argparse
import datetime
import json
import os
import pathlib
import signal
import sys
import time

parser = argparse.ArgumentParser(description="Count steps.")
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--seconds-per-step", type=float, default=0.1)
parser.add_argument("--checkpoint-every", type=int, default=1, metavar="STEPS")
parser.add_argument("--exit-code", type=int, default=0, help="what it ends with, at its end or at --exit-at-step")
parser.add_argument("--exit-at-step", type=int)
parser.add_argument("--crash-at-step", type=int, help="raise there, unless the run was resumed")
parser.add_argument("--hang-at-step", type=int, help="go on for ever there, without a further step")
parser.add_argument("--allocate-mb", type=int, default=0, help="memory to take")
parser.add_argument("--allocate-at-step", type=int, default=1)
parser.add_argument("--only-rank", type=int, help="the rank that fails, hangs or takes memory; without it, all do")
parser.add_argument("--ignore-sigterm", action="store_true")
options = parser.parse_args()

print(f"first-step-at={datetime.datetime.now(datetime.timezone.utc).isoformat()}", flush=True)  # noqa: UP017
rank = os.environ.get("RANK", "0")
is_meant = options.only_rank is None or rank == str(options.only_rank)
checkpoint_dir = pathlib.Path(os.environ.get("CHECKPOINT_DIR", "no-checkpoints"))
checkpoint = checkpoint_dir / f"probe-{rank}.json"
state_dir = pathlib.Path(os.environ.get("JOB_STATE_DIR", "no-state"))
progress = state_dir / f"progress-{os.environ.get('LEARNER_ID', '1')}.json"
asked = []
signal.signal(signal.SIGTERM, lambda number, frame: None if options.ignore_sigterm else asked.append(number))


def write(path, value):
    """Write it under another name first, so that it is never seen half-written; without the directory, not at all."""
    if path.parent.is_dir():
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(value))
        temporary.replace(path)


def wait(seconds):
    """Wait, but no longer than until it is asked to stop."""
    until = time.monotonic() + seconds
    while not asked and time.monotonic() < until:
        time.sleep(max(0.0, min(0.05, until - time.monotonic())))


step = 0
if checkpoint.exists():
    step = json.loads(checkpoint.read_text())["step"]
    print(f"resumed at step={step}", flush=True)
resumed = step > 0
ballast = b""
while step < options.steps:
    step += 1
    print(f"step={step} loss={1 / step:.4f}", flush=True)
    write(progress, {"step": step})
    if is_meant and step >= options.allocate_at_step and not ballast:
        ballast = b"x" * (options.allocate_mb << 20)
    if is_meant and step == options.exit_at_step:
        sys.exit(options.exit_code)
    if is_meant and step == options.crash_at_step and not resumed:
        raise RuntimeError(f"the probe was told to crash at step {step}")
    if step % options.checkpoint_every == 0:
        write(checkpoint, {"step": step})
    while is_meant and step == options.hang_at_step and not asked:
        wait(3600)
    wait(options.seconds_per_step)
    if asked:
        write(checkpoint, {"step": step})
        print(f"stopped and saved at step={step}", flush=True)
        sys.exit(143)

if rank == "0":
    write(pathlib.Path(os.environ.get("RESULT_DIR", "no-results"), "probe.json"), {"steps": step, "resumed": resumed})
sys.exit(options.exit_code if is_meant and options.exit_at_step is None else 0)
