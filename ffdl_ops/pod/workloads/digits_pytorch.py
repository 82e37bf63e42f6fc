"""Classify handwritten digits with PyTorch; with several learners, by DistributedDataParallel.

Run it anywhere: it reads `DATA_DIR` (train.npz, test.npz), keeps checkpoints in `CHECKPOINT_DIR`, goes on from the newest
one at the very step, and leaves the model in `RESULT_DIR`. The batch is the whole gang's, so that any number of learners
takes the same steps. Asked to stop (SIGTERM), all learners stop at the same step, save, and exit with 143.
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import time

import numpy as np
import torch
from torch import distributed, nn

parser = argparse.ArgumentParser(description="Classify handwritten digits with PyTorch.")
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--batch", type=int, default=64, help="images per step, of all learners together")
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--sleep-per-step", type=float, default=0.0, metavar="SECONDS")
parser.add_argument("--crash-at-step", type=int, help="the last learner fails there, unless the run was resumed")
parser.add_argument("--allocate-mb", type=int, default=0, help="memory to hold on top")
options = parser.parse_args()

rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
data_dir = pathlib.Path(os.environ["DATA_DIR"])
checkpoint_dir = pathlib.Path(os.environ["CHECKPOINT_DIR"])
result_dir = pathlib.Path(os.environ["RESULT_DIR"])
ballast = bytearray(b"x") * (options.allocate_mb << 20)
asked = []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch.manual_seed(options.seed)


def read_images(name):
    with np.load(data_dir / f"{name}.npz") as file:
        return torch.from_numpy(file["images"]).unsqueeze(1), torch.from_numpy(file["labels"])


train_x, train_y = read_images("train")
test_x, test_y = read_images("test")
steps_per_epoch = len(train_y) // options.batch

model = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)


def save(step):
    """Write a checkpoint under another name first: it is never seen half-written. All learners' weights are the same."""
    if rank == 0:
        path = checkpoint_dir / f"step-{step:06d}.pt"
        temporary = path.with_suffix(".tmp")
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, temporary)
        temporary.replace(path)
        for old in sorted(checkpoint_dir.glob("step-*.pt"))[:-2]:
            old.unlink()


def restore():
    """Load the newest checkpoint; the step after which to go on. The first learner's choice holds for all."""
    newest = [max((path.name for path in checkpoint_dir.glob("step-*.pt")), default=None)]
    if world > 1:
        distributed.broadcast_object_list(newest)
    if newest[0] is None:
        return 0
    state = torch.load(checkpoint_dir / newest[0], weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"resumed from {newest[0]} at step={state['step']}", flush=True)
    return state["step"]


def anyone_asked():
    """Whether any learner was asked to stop: all must leave their loop at the same step."""
    flag = torch.tensor([len(asked)])
    if world > 1:
        distributed.all_reduce(flag)
    return bool(flag.item())


def accuracy():
    with torch.no_grad():
        return 100 * (model(test_x).argmax(1) == test_y).float().mean().item()


def own_batch(step):
    """This learner's share of the batch after `step`; each epoch shuffles in an order of its own."""
    epoch, index = divmod(step, steps_per_epoch)
    order = torch.randperm(len(train_y), generator=torch.Generator().manual_seed(options.seed + epoch))
    return order[index * options.batch : (index + 1) * options.batch][rank::world]


if world > 1:
    distributed.init_process_group("gloo")
first = step = restore()
net = nn.parallel.DistributedDataParallel(model) if world > 1 else model
losses = []
while step < options.epochs * steps_per_epoch:
    batch = own_batch(step)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(train_x[batch]), train_y[batch])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    step += 1
    if options.sleep_per_step:
        time.sleep(options.sleep_per_step)
    if step == options.crash_at_step and first == 0 and rank == world - 1:
        raise RuntimeError(f"told to crash at step {step}")
    if anyone_asked():
        save(step)
        print(f"stopped and saved at step={step}", flush=True)
        sys.exit(143)
    if step % steps_per_epoch == 0:
        save(step)
        if rank == 0:
            mean = sum(losses) / len(losses)
            print(f"step={step} epoch={step // steps_per_epoch} loss={mean:.4f} accuracy={accuracy():.2f}", flush=True)
        losses.clear()

if rank == 0:
    final = accuracy()
    torch.save(model.state_dict(), result_dir / "model.pt")
    metrics = {"test_accuracy": round(final, 2), "steps": step, "learners": world}
    (result_dir / "metrics.json").write_text(json.dumps(metrics))
    print(f"step={step} test_accuracy={final:.2f}", flush=True)
if world > 1:
    distributed.barrier()
    distributed.destroy_process_group()
