"""A linear model over all ranks with Horovod for TensorFlow; gradients are averaged by its tape."""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import horovod.tensorflow as hvd
import tensorflow as tf

EPOCHS, STEPS = 3, 20

hvd.init()
rank, world = hvd.rank(), hvd.size()
weights = tf.Variable(tf.random.normal([8, 1], seed=rank))
hvd.broadcast_variables([weights], root_rank=0)
own = tf.random.Generator.from_seed(rank)
for epoch in range(1, EPOCHS + 1):
    began = time.perf_counter()
    for _ in range(STEPS):
        x = own.normal([16, 8])
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean((x @ weights - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, [weights])[0])
    if rank == 0:
        print(f"Epoch {epoch}/{EPOCHS} loss: {float(loss):.4f} time: {time.perf_counter() - began:.3f}s", flush=True)
assert float(loss) < 0.1, "it does not learn"
everywhere = hvd.allgather(tf.reshape(weights, [1, 8]))
assert everywhere.shape[0] == world and bool(tf.reduce_all(everywhere == everywhere[0])), "the ranks differ"
print(f"rank {rank} of {world}: same weights as all", flush=True)
hvd.shutdown()
