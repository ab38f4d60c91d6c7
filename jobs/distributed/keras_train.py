"""A linear model of Keras on JAX over all processes, each with its own part of every batch."""

import jax
import keras
import numpy as np

EPOCHS, STEPS = 3, 20

keras.distribution.initialize()
rank, world = jax.process_index(), jax.process_count()
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
own = np.random.default_rng(rank).normal(size=(16 * STEPS, 8)).astype("float32")
fit = model.fit(own, own.sum(1, keepdims=True), batch_size=16, epochs=EPOCHS, verbose=2 if rank == 0 else 0)
assert fit.history["loss"][-1] < 0.1, "it does not learn"
from jax.experimental.multihost_utils import process_allgather

everywhere = process_allgather(np.concatenate([np.ravel(weight) for weight in model.get_weights()]))
assert len(everywhere) == world and (everywhere == everywhere[0]).all(), "the processes differ"
print(f"rank {rank} of {world}: same weights as all", flush=True)
