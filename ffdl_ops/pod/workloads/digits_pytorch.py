"""Classify handwritten digits with PyTorch; with several learners, by DistributedDataParallel.

Run it anywhere: it reads `DATA_DIR` (train.npz, test.npz), keeps checkpoints in `CHECKPOINT_DIR`, goes on from the newest
one, and leaves the model in `RESULT_DIR`.
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
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--sleep-per-step", type=float, default=0.0)
parser.add_argument("--crash-at-step", type=int, default=None)
options = parser.parse_args()

rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
data, checkpoints, results = (
    pathlib.Path(os.environ[name]) for name in ("DATA_DIR", "CHECKPOINT_DIR", "RESULT_DIR")
)
torch.manual_seed(options.seed)
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
stop = []
signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))


def load(name):
    with np.load(data / f"{name}.npz") as file:
        return torch.from_numpy(file["images"]).unsqueeze(1), torch.from_numpy(file["labels"])


train_x, train_y = load("train")
test_x, test_y = load("test")

model = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64 * 16, 64), nn.ReLU(), nn.Linear(64, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
first_epoch, step = 0, 0

newest = max(checkpoints.glob("epoch-*.pt"), default=None)
if newest is not None:
    state = torch.load(newest, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first_epoch, step = state["epoch"], state["step"]
    print(f"resumed from {newest.name} at step={step}", flush=True)
resumed = newest is not None

if world > 1:
    torch.distributed.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(model)
else:
    net = model


def save(epoch):
    """All learners hold the same weights: the first one writes, and a rename makes the file appear whole."""
    if rank == 0:
        path = checkpoints / f"epoch-{epoch:04d}.pt"
        temporary = path.with_suffix(".tmp")
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "step": step}, temporary
        )
        temporary.replace(path)


def asked_to_stop():
    """Whether any learner was asked to stop: all must leave their loop at the same step."""
    flag = torch.tensor([len(stop)])
    if world > 1:
        torch.distributed.all_reduce(flag)
    return bool(flag.item())


def accuracy():
    model.eval()
    with torch.no_grad():
        correct = (model(test_x).argmax(1) == test_y).float().mean().item()
    model.train()
    return 100 * correct


for epoch in range(first_epoch, options.epochs):
    order = torch.randperm(len(train_y), generator=torch.Generator().manual_seed(options.seed + epoch))
    own = order[rank : len(order) // world * world : world]
    losses = []
    for batch in own.split(options.batch):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(train_x[batch]), train_y[batch])
        loss.backward()
        optimizer.step()
        step += 1
        losses.append(loss.item())
        if options.sleep_per_step:
            time.sleep(options.sleep_per_step)
        if step == options.crash_at_step and not resumed:
            raise RuntimeError(f"told to crash at step {step}")
        if asked_to_stop():
            save(epoch)
            print(f"stopped and saved at step={step}", flush=True)
            sys.exit(143)
    save(epoch + 1)
    if rank == 0:
        print(f"step={step} epoch={epoch + 1} loss={np.mean(losses):.4f} accuracy={accuracy():.2f}", flush=True)

if rank == 0:
    final = accuracy()
    torch.save(model.state_dict(), results / "model.pt")
    (results / "metrics.json").write_text(json.dumps({"test_accuracy": final, "steps": step}))
    print(f"step={step} test_accuracy={final:.2f}", flush=True)
if world > 1:
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
