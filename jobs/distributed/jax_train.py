"""A linear model over all processes of JAX; gradients are gathered and averaged."""

import argparse
import time

import jax
import jax.numpy as jnp
from jax.experimental.multihost_utils import process_allgather

arguments = argparse.ArgumentParser()
arguments.add_argument("--epochs", type=int, default=3)
arguments.add_argument("--batch-size", type=int, help="samples of a step, over all ranks; default: 16 on each")
arguments.add_argument("--samples", type=int, default=1280, help="samples of an epoch")
arguments = arguments.parse_args()

jax.distributed.initialize()
rank, world = jax.process_index(), jax.process_count()
batch = arguments.batch_size or 16 * world
own_batch, steps = batch // world, arguments.samples // batch
weights, key = jnp.zeros((8, 1)), jax.random.key(rank)


def loss_of(weights, x):
    return jnp.mean((x @ weights - x.sum(1, keepdims=True)) ** 2)


gradient = jax.jit(jax.value_and_grad(loss_of))
for epoch in range(1, arguments.epochs + 1):
    began = time.perf_counter()
    for _ in range(steps):
        key, sub = jax.random.split(key)
        loss, own = gradient(weights, jax.random.normal(sub, (own_batch, 8)))
        weights = weights - 0.1 * process_allgather(own).mean(0)
    if rank == 0:
        print(f"Epoch {epoch}/{arguments.epochs} loss: {float(loss):.4f} time: {time.perf_counter() - began:.3f}s", flush=True)
everywhere = process_allgather(weights)
assert jnp.allclose(everywhere, everywhere[0]), "the processes differ"
print(f"rank {rank} of {world}: same weights as all", flush=True)
