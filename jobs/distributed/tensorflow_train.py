"""A linear model over all workers with MultiWorkerMirroredStrategy and its own loop: Keras 3 cannot train under it."""

import argparse
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

arguments = argparse.ArgumentParser()
arguments.add_argument("--epochs", type=int, default=3)
arguments.add_argument("--batch-size", type=int, help="samples of a step, over all ranks; default: 16 on each")
arguments.add_argument("--samples", type=int, default=1280, help="samples of an epoch")
arguments = arguments.parse_args()

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, world = json.loads(os.environ["TF_CONFIG"])["task"]["index"], strategy.num_replicas_in_sync
batch = arguments.batch_size or 16 * world
own_batch, steps = batch // world, arguments.samples // batch
with strategy.scope():
    weights = tf.Variable(tf.zeros([8, 1]))
own = tf.random.Generator.from_seed(rank)


def step():
    x = own.normal([own_batch, 8])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
    gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weights))
    weights.assign_sub(0.1 * gradient)
    return loss


@tf.function
def run():
    return strategy.reduce("MEAN", strategy.run(step), axis=None)


for epoch in range(1, arguments.epochs + 1):
    began = time.perf_counter()
    for _ in range(steps):
        loss = run()
    if rank == 0:
        print(f"Epoch {epoch}/{arguments.epochs} loss: {float(loss):.4f} time: {time.perf_counter() - began:.3f}s", flush=True)
assert float(loss) < 0.1, "it does not learn"
print(f"rank {rank} of {world}: loss {float(loss):.4f}", flush=True)
# The servers of other workers may still be asked.
os._exit(0)
