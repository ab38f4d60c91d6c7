"""A linear model over all workers with MultiWorkerMirroredStrategy and a loop of its own: Keras 3 cannot train under it."""

import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

EPOCHS, STEPS = 3, 20

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, world = json.loads(os.environ["TF_CONFIG"])["task"]["index"], strategy.num_replicas_in_sync
with strategy.scope():
    weights = tf.Variable(tf.zeros([8, 1]))
own = tf.random.Generator.from_seed(rank)


def step():
    x = own.normal([16, 8])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
    gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weights))
    weights.assign_sub(0.1 * gradient)
    return loss


@tf.function
def run():
    return strategy.reduce("MEAN", strategy.run(step), axis=None)


for epoch in range(1, EPOCHS + 1):
    began = time.perf_counter()
    for _ in range(STEPS):
        loss = run()
    if rank == 0:
        print(f"Epoch {epoch}/{EPOCHS} loss: {float(loss):.4f} time: {time.perf_counter() - began:.3f}s", flush=True)
assert float(loss) < 0.1, "it does not learn"
print(f"rank {rank} of {world}: loss {float(loss):.4f}", flush=True)
# The servers of other workers may still be asked.
os._exit(0)
