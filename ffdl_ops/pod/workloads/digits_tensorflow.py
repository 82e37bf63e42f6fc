"""Classify handwritten digits with TensorFlow; with several learners, by MultiWorkerMirroredStrategy.

Run it anywhere: it reads `DATA_DIR` (train.npz, test.npz), keeps checkpoints in `CHECKPOINT_DIR`, goes on from the newest
one at the very step, and leaves the model's weights in `RESULT_DIR`. The batch is the whole gang's, so that any number of
learners takes the same steps. Asked to stop (SIGTERM), all learners stop at the same step, save, and exit with 143.

The loop is its own: Keras 3's `fit` does not run under this strategy. So is the optimizer (Adam): three lines, whose state is
saved with the weights.
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

parser = argparse.ArgumentParser(description="Classify handwritten digits with TensorFlow.")
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--batch", type=int, default=64, help="images per step, of all learners together")
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--sleep-per-step", type=float, default=0.0, metavar="SECONDS")
parser.add_argument("--crash-at-step", type=int, help="the last learner fails there, unless the run was resumed")
parser.add_argument("--allocate-mb", type=int, default=0, help="memory to hold on top")
options = parser.parse_args()

data_dir = pathlib.Path(os.environ["DATA_DIR"])
checkpoint_dir = pathlib.Path(os.environ["CHECKPOINT_DIR"])
result_dir = pathlib.Path(os.environ["RESULT_DIR"])
ballast = bytearray(b"x") * (options.allocate_mb << 20)
threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))

several = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if several else tf.distribute.get_strategy()
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"] if several else 0
world = strategy.num_replicas_in_sync
# After the strategy: TensorFlow takes SIGTERM for itself when it joins the others.
asked = []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
tf.keras.utils.set_random_seed(options.seed)


def read_images(name):
    with np.load(data_dir / f"{name}.npz") as file:
        return file["images"][..., None], file["labels"]


train_x, train_y = read_images("train")
test_x, test_y = read_images("test")
steps_per_epoch = len(train_y) // options.batch

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.Input((8, 8, 1)),
        tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        tf.keras.layers.MaxPooling2D(2),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ])  # fmt: skip
    weights = [variable.value for variable in model.trainable_variables]
    means = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    squares = [tf.Variable(tf.zeros_like(weight)) for weight in weights]


def train_replica(x, y, step):
    """One learner's part of a step: its gradients are added to the others', then all make the same update."""
    with tf.GradientTape() as tape:
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True))
        loss = tf.reduce_sum(each) / options.batch
    gradients = tape.gradient(loss, weights)
    context = tf.distribute.get_replica_context()
    gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    for weight, mean, square, gradient in zip(weights, means, squares, gradients):  # noqa: B905
        mean.assign(0.9 * mean + 0.1 * gradient)
        square.assign(0.999 * square + 0.001 * tf.square(gradient))
        unbiased = tf.sqrt(square / (1 - 0.999**step))
        weight.assign_sub(options.lr * (mean / (1 - 0.9**step)) / (unbiased + 1e-8))
    return loss


@tf.function(reduce_retracing=True)
def train_step(x, y, step, flag):
    """A step of all learners; the mean loss, and how many were asked to stop."""
    loss = strategy.run(train_replica, args=(x, y, step))
    flags = strategy.run(tf.identity, args=(flag,))
    return [strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None) for value in (loss, flags)]


def local(variable):
    return strategy.experimental_local_results(variable)[0].numpy()


def save(step):
    """Write a checkpoint under another name first: it is never seen half-written. All learners' weights are the same."""
    if rank == 0:
        path = checkpoint_dir / f"step-{step:06d}.npz"
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            np.savez(file, *[local(variable) for variable in (*weights, *means, *squares)], step=step)
        temporary.replace(path)
        for old in sorted(checkpoint_dir.glob("step-*.npz"))[:-2]:
            old.unlink()


def restore():
    """Load the newest checkpoint, the same for all learners; the step after which to go on."""
    newest = max(checkpoint_dir.glob("step-*.npz"), default=None)
    if newest is None:
        return 0
    with np.load(newest) as file:
        step = int(file["step"])
        for index, variable in enumerate((*weights, *means, *squares)):
            variable.assign(file[f"arr_{index}"])
    print(f"resumed from {newest.name} at step={step}", flush=True)
    return step


@tf.function
def predict(x):
    return model(x, training=False)


def accuracy():
    return 100 * float(np.mean(np.argmax(predict(tf.constant(test_x)).numpy(), 1) == test_y))


def own_batch(step):
    """This learner's share of the batch after `step`; each epoch shuffles in an order of its own."""
    epoch, index = divmod(step, steps_per_epoch)
    order = np.random.default_rng(options.seed + epoch).permutation(len(train_y))
    return order[index * options.batch : (index + 1) * options.batch][rank::world]


first = step = restore()
losses = []
while step < options.epochs * steps_per_epoch:
    batch = own_batch(step)
    step += 1
    x, y = tf.constant(train_x[batch]), tf.constant(train_y[batch])
    loss, flags = train_step(x, y, tf.constant(float(step)), tf.constant(float(len(asked))))
    losses.append(float(loss))
    if options.sleep_per_step:
        time.sleep(options.sleep_per_step)
    if step == options.crash_at_step and first == 0 and rank == world - 1:
        raise RuntimeError(f"told to crash at step {step}")
    if float(flags):
        save(step)
        print(f"stopped and saved at step={step}", flush=True)
        sys.exit(143)
    if step % steps_per_epoch == 0:
        save(step)
        if rank == 0:
            mean_loss = sum(losses) / len(losses)
            epoch = step // steps_per_epoch
            print(f"step={step} epoch={epoch} loss={mean_loss:.4f} accuracy={accuracy():.2f}", flush=True)
        losses.clear()

if rank == 0:
    final = accuracy()
    model.save_weights(result_dir / "model.weights.h5")
    metrics = {"test_accuracy": round(final, 2), "steps": step, "learners": world}
    (result_dir / "metrics.json").write_text(json.dumps(metrics))
    print(f"step={step} test_accuracy={final:.2f}", flush=True)
