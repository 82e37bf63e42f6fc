"""A tiny program that counts steps: it checkpoints, resumes, stops when asked, and fails in the ways its flags say."""

import argparse
import datetime
import json
import os
import pathlib
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--seconds-per-step", type=float, default=0.1)
parser.add_argument("--checkpoint-every", type=int, default=1)
parser.add_argument("--exit-code", type=int, default=0)
parser.add_argument("--exit-at-step", type=int, default=None)
parser.add_argument("--crash-at-step", type=int, default=None, help="raise there, unless the run was resumed")
parser.add_argument("--hang-at-step", type=int, default=None)
parser.add_argument("--allocate-mb", type=int, default=0)
parser.add_argument("--ignore-sigterm", action="store_true")
options = parser.parse_args()

print(f"first-step-at={datetime.datetime.now(datetime.UTC).isoformat()}", flush=True)
rank = os.environ.get("RANK", "0")
checkpoint = pathlib.Path(os.environ.get("CHECKPOINT_DIR", "."), f"probe-{rank}.json")
stop = []
signal.signal(signal.SIGTERM, lambda number, frame: None if options.ignore_sigterm else stop.append(number))

step = 0
if checkpoint.exists():
    step = json.loads(checkpoint.read_text())["step"]
    print(f"resumed at step={step}", flush=True)
resumed = step > 0


def save():
    temporary = checkpoint.with_suffix(".tmp")
    temporary.write_text(json.dumps({"step": step}))
    temporary.replace(checkpoint)


ballast = b"x" * (options.allocate_mb << 20)
while step < options.steps:
    step += 1
    print(f"step={step} loss={1 / step:.4f}", flush=True)
    if step == options.exit_at_step:
        sys.exit(options.exit_code)
    if step == options.crash_at_step and not resumed:
        raise RuntimeError(f"the probe was told to crash at step {step}")
    if step % options.checkpoint_every == 0:
        save()
    while step == options.hang_at_step:
        time.sleep(1)
    waited = 0.0
    while waited < options.seconds_per_step and not stop:
        time.sleep(min(0.1, options.seconds_per_step - waited))
        waited += 0.1
    if stop:
        save()
        print(f"stopped and saved at step={step}", flush=True)
        sys.exit(143)

result = pathlib.Path(os.environ.get("RESULT_DIR", "."))
if rank == "0" and result.is_dir():
    (result / "probe.json").write_text(json.dumps({"steps": step, "resumed": resumed}))
sys.exit(options.exit_code if options.exit_at_step is None else 0)
