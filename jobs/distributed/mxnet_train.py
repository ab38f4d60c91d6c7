"""A linear model over all workers of MXNet's parameter server; `import mxnet` turns the scheduler and the servers into what they are."""

import os
import time

import mxnet as mx

EPOCHS, STEPS = 3, 20

store = mx.kv.create("dist_sync")
# MXNet numbers its workers itself: `store.rank` is another number.
rank, world = int(os.environ["DMLC_WORKER_ID"]), store.num_workers
mx.random.seed(rank)
weights = mx.nd.zeros((8, 1))
weights.attach_grad()
total = mx.nd.zeros((8, 1))
store.init("gradient", total)
for epoch in range(1, EPOCHS + 1):
    began = time.perf_counter()
    for _ in range(STEPS):
        x = mx.nd.random.normal(shape=(16, 8))
        with mx.autograd.record():
            loss = ((mx.nd.dot(x, weights) - x.sum(axis=1, keepdims=True)) ** 2).mean()
        loss.backward()
        store.push("gradient", weights.grad)
        store.pull("gradient", out=total)
        weights[:] = weights - 0.1 * total / world
    if rank == 0:
        print(f"Epoch {epoch}/{EPOCHS} loss: {loss.asscalar():.4f} time: {time.perf_counter() - began:.3f}s", flush=True)
assert loss.asscalar() < 0.1, "it does not learn"
# The sum of n equal numbers is n of one. What is pulled may overwrite what was pushed.
store.init("weights", weights)
store.push("weights", weights.copy())
store.pull("weights", out=total)
assert (abs(total / world - weights)).max().asscalar() < 1e-6, "the workers differ"
print(f"rank {rank} of {world}: same weights as all", flush=True)
