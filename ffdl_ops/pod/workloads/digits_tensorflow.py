"""Classify handwritten digits with TensorFlow; with several learners, by MultiWorkerMirroredStrategy.

Run it anywhere: it reads `DATA_DIR` (train.npz, test.npz), keeps checkpoints in `CHECKPOINT_DIR`, goes on from the newest
one, and leaves the model's weights in `RESULT_DIR`. The loop is its own: Keras 3's `fit` does not run under this strategy.
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--sleep-per-step", type=float, default=0.0)
options = parser.parse_args()

data, checkpoints, results = (
    pathlib.Path(os.environ[name]) for name in ("DATA_DIR", "CHECKPOINT_DIR", "RESULT_DIR")
)
stop = []
signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
tf.config.set_visible_devices([], "GPU") if not os.environ.get("CUDA_VISIBLE_DEVICES") else None

distributed = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if distributed else tf.distribute.get_strategy()
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"] if distributed else 0
world = strategy.num_replicas_in_sync
tf.keras.utils.set_random_seed(options.seed)


def load(name):
    with np.load(data / f"{name}.npz") as file:
        return file["images"][..., None], file["labels"]


train_x, train_y = load("train")
test_x, test_y = load("test")


def weight(*shape):
    scale = (2.0 / np.prod(shape[:-1])) ** 0.5
    return tf.Variable(tf.random.normal(shape, stddev=scale, seed=options.seed))


def zeros(size):
    return tf.Variable(tf.zeros([size]))


with strategy.scope():
    params = [
        weight(3, 3, 1, 32), zeros(32), weight(3, 3, 32, 64), zeros(64), weight(16 * 64, 64), zeros(64),
        weight(64, 10), zeros(10),
    ]  # fmt: skip
    first = [tf.Variable(tf.zeros_like(p)) for p in params]
    second = [tf.Variable(tf.zeros_like(p)) for p in params]
    counter = tf.Variable(0, dtype=tf.int64)


def logits(x, w):
    h = tf.nn.relu(tf.nn.conv2d(x, w[0], 1, "SAME") + w[1])
    h = tf.nn.relu(tf.nn.conv2d(h, w[2], 1, "SAME") + w[3])
    h = tf.reshape(tf.nn.max_pool2d(h, 2, 2, "VALID"), [-1, 16 * 64])
    return tf.nn.relu(h @ w[4] + w[5]) @ w[6] + w[7]


def replica_step(x, y, t):
    """One step of Adam on this learner's batch, with the gradients summed over all learners."""
    with tf.GradientTape() as tape:
        tape.watch(params)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits(x, params))
        loss = tf.reduce_mean(each) / world
    gradients = tape.gradient(loss, params)
    if distributed:
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    for p, m, v, g in zip(params, first, second, gradients):
        m.assign(0.9 * m + 0.1 * g)
        v.assign(0.999 * v + 0.001 * g * g)
        p.assign_sub(options.lr * (m / (1 - 0.9**t)) / (tf.sqrt(v / (1 - 0.999**t)) + 1e-8))
    return loss


@tf.function(reduce_retracing=True)
def train_step(x, y, t):
    losses = strategy.run(replica_step, args=(x, y, t))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


@tf.function
def any_stopped(flag):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(flag,)), axis=None)


def read(variable):
    return variable.numpy() if not distributed else strategy.experimental_local_results(variable)[0].numpy()


def state():
    return [read(v) for v in (*params, *first, *second)]


def save(epoch, step):
    """All learners hold the same weights: the first one writes, and a rename makes the file appear whole."""
    if rank == 0:
        path = checkpoints / f"epoch-{epoch:04d}.npz"
        temporary = checkpoints / f".{path.name}.tmp"
        with temporary.open("wb") as file:
            np.savez(file, epoch=epoch, step=step, **{f"v{i:02d}": value for i, value in enumerate(state())})
        temporary.replace(path)


def accuracy():
    weights = [tf.constant(read(p)) for p in params]
    return 100 * float(np.mean(np.argmax(logits(tf.constant(test_x), weights).numpy(), 1) == test_y))


first_epoch, step = 0, 0
newest = max(checkpoints.glob("epoch-*.npz"), default=None)
if newest is not None:
    with np.load(newest) as file:
        first_epoch, step = int(file["epoch"]), int(file["step"])
        for i, variable in enumerate((*params, *first, *second)):
            variable.assign(file[f"v{i:02d}"])
    print(f"resumed from {newest.name} at step={step}", flush=True)

for epoch in range(first_epoch, options.epochs):
    order = np.random.default_rng(options.seed + epoch).permutation(len(train_y))
    own = order[rank : len(order) // world * world : world]
    losses = []
    for start in range(0, len(own) - options.batch + 1, options.batch):
        batch = own[start : start + options.batch]
        step += 1
        x, y, t = tf.constant(train_x[batch]), tf.constant(train_y[batch]), tf.constant(float(step))
        losses.append(float(train_step(x, y, t)))
        if options.sleep_per_step:
            time.sleep(options.sleep_per_step)
        if float(any_stopped(tf.constant(float(len(stop))))) > 0:
            save(epoch, step)
            print(f"stopped and saved at step={step}", flush=True)
            sys.exit(143)
    save(epoch + 1, step)
    if rank == 0:
        print(f"step={step} epoch={epoch + 1} loss={np.mean(losses):.4f} accuracy={accuracy():.2f}", flush=True)

if rank == 0:
    final = accuracy()
    np.savez(results / "model.npz", *[read(p) for p in params])
    (results / "metrics.json").write_text(json.dumps({"test_accuracy": final, "steps": step}))
    print(f"step={step} test_accuracy={final:.2f}", flush=True)
