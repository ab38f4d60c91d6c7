"""Train one of three networks with TensorFlow or JAX, with and without XLA, and print the seconds of each epoch.

Each network is written once, in Keras 3, which runs on either framework, so that a difference between two runs
comes from the framework and the compiler and not from the network.  The data are made here from a fixed seed.
"""

import argparse
import math
import os
import time

SEED = 1
LEARNING_RATE = 0.01
CLASSES = 10  # kinds of synthetic samples; ResNet50 has its 1000 outputs all the same
WIDTH = 256  # features of the gated network
BLOCKS = 8
# More would cost memory and change no time: after these the first come again.
DISTINCT_BATCHES = 16
PARAMETERS = {"mnist-cnn": 1_199_882, "gated-mlp": 533_002, "resnet50": 25_583_592}  # trainable ones
POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16"}


def main():
    """Train on as many CPUs as OMP_NUM_THREADS says."""
    options = command_line()
    threads = restrict_cpus()
    # Read when Keras and TensorFlow are imported, below.
    os.environ["KERAS_BACKEND"] = options.framework
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    version, run_epoch = {"tensorflow": tensorflow_program, "jax": jax_program}[options.framework](options, threads)
    print(
        f"{options.network} with {options.framework} {version}, compiler {options.compiler}, "
        f"{options.precision}, batches of {options.batch_size}, {threads} CPUs",
        flush=True,
    )
    for epoch in range(1, options.epochs + 1):
        started = time.perf_counter()
        loss = run_epoch()
        seconds = time.perf_counter() - started
        print(f"Epoch {epoch}/{options.epochs} - {seconds:.6f} s - loss: {loss:.4f}", flush=True)


def command_line():
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--network", choices=sorted(PARAMETERS), required=True)
    parser.add_argument("--framework", choices=["tensorflow", "jax"], required=True)
    parser.add_argument("--compiler", choices=["none", "xla"], default="none")
    parser.add_argument("--batch-size", type=positive, default=64)
    parser.add_argument("--samples", type=positive, default=1024, help="per epoch; a multiple of the batch size")
    parser.add_argument("--epochs", type=positive, default=4, help="tracing and compilation lie in the first")
    parser.add_argument("--precision", choices=sorted(POLICIES), default="fp32")
    parser.add_argument("--image-size", type=positive, default=224, help="pixels of a side; for resnet50 only")
    options = parser.parse_args()
    if options.samples % options.batch_size:
        parser.error(f"--samples {options.samples} is not a multiple of --batch-size {options.batch_size}")
    if options.image_size < 32:
        parser.error(f"--image-size {options.image_size}: ResNet50 takes 32 or more")
    return options


def positive(text):
    """Read a whole number from 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def restrict_cpus():
    """Keep to the first OMP_NUM_THREADS of the CPUs that this process may use, and return how many they are.

    JAX has no setting for its threads: it starts one for each CPU that it may use when it is imported.
    """
    allowed = sorted(os.sched_getaffinity(0))
    wanted = os.environ.get("OMP_NUM_THREADS") or str(len(allowed))
    try:
        threads = min(positive(wanted), len(allowed))
    except ValueError:
        raise SystemExit(f"OMP_NUM_THREADS is {wanted!r}, not a whole number from 1") from None
    os.sched_setaffinity(0, allowed[:threads])
    return threads


def tensorflow_program(options, threads):
    """Return TensorFlow's version and a function that trains for one epoch and returns the last loss."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    model = network(options)

    @tf.function(jit_compile=options.compiler == "xla")
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            loss = mean_loss(model(inputs, training=True), labels)
        variables = [variable.value for variable in model.trainable_variables]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(LEARNING_RATE * gradient)
        return loss

    batches = [(tf.constant(inputs), tf.constant(labels)) for inputs, labels in synthetic(options, model.input_shape)]

    def run_epoch():
        for number in range(options.samples // options.batch_size):
            loss = step(*batches[number % len(batches)])
        return float(loss)

    return tf.__version__, run_epoch


def jax_program(options, _threads):
    """Return JAX' version and a function that trains for one epoch and returns the last loss."""
    import jax
    import jax.numpy as jnp

    model = network(options)

    def forward(trained, others, inputs, labels):
        outputs, others = model.stateless_call(trained, others, inputs, training=True)
        return mean_loss(outputs, labels), others

    def step(trained, others, inputs, labels):
        differentiate = jax.value_and_grad(forward, has_aux=True)
        (loss, others), gradients = differentiate(trained, others, inputs, labels)
        trained = [variable - LEARNING_RATE * gradient for variable, gradient in zip(trained, gradients)]
        return loss, trained, others

    if options.compiler == "xla":
        step = jax.jit(step, donate_argnums=(0, 1))
    batches = [(jnp.asarray(inputs), jnp.asarray(labels)) for inputs, labels in synthetic(options, model.input_shape)]
    state = [
        [variable.value for variable in model.trainable_variables],
        [variable.value for variable in model.non_trainable_variables],
    ]

    def run_epoch():
        for number in range(options.samples // options.batch_size):
            loss, *state[:] = step(*state, *batches[number % len(batches)])
        jax.block_until_ready(state)
        return float(loss)

    return jax.__version__, run_epoch


def network(options):
    """Build the network that is asked for, with the framework that Keras was told of."""
    import keras

    keras.utils.set_random_seed(SEED)
    keras.config.set_dtype_policy(POLICIES[options.precision])
    if options.network == "resnet50":
        side = options.image_size
        model = keras.applications.ResNet50(weights=None, input_shape=(side, side, 3), classifier_activation=None)
    else:
        model = {"mnist-cnn": mnist_cnn, "gated-mlp": gated_mlp}[options.network](keras)
    counted = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    if counted != PARAMETERS[options.network]:
        raise SystemExit(f"{options.network} has {counted} parameters, not {PARAMETERS[options.network]}")
    return model


def mnist_cnn(keras):
    """Build the network of the MODAK paper, which is that of Keras' MNIST example without its dropout."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def gated_mlp(keras):
    """Build residual blocks of one matrix product and many pointwise operations, which a compiler can fuse."""
    inputs = keras.Input((WIDTH,))
    stream = inputs
    for _ in range(BLOCKS):
        normed = keras.layers.LayerNormalization()(stream)
        mixed = keras.layers.Dense(WIDTH)(normed)
        gated = keras.ops.gelu(mixed) * keras.ops.sigmoid(normed)
        stream = stream + keras.ops.tanh(gated) * keras.ops.exp(-gated * gated)
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(stream))


def mean_loss(logits, labels):
    """Return the mean cross entropy of a batch, in 32 bits whatever the network computes in."""
    from keras import ops

    losses = ops.sparse_categorical_crossentropy(labels, ops.cast(logits, "float32"), from_logits=True)
    return ops.mean(losses)


def synthetic(options, shape):
    """Return batches of inputs and labels: each label has a pattern of its own, under noise.

    They are made before the first epoch and stay in memory, so that no epoch waits for data.
    """
    import numpy as np

    random = np.random.default_rng(SEED)
    patterns = random.random((CLASSES, *shape[1:]), dtype="float32")
    batches = []
    for _ in range(min(options.samples // options.batch_size, DISTINCT_BATCHES)):
        labels = random.integers(CLASSES, size=options.batch_size, dtype="int32")
        noise = random.random((options.batch_size, *shape[1:]), dtype="float32")
        batches.append(((patterns[labels] + noise) / 2, labels))
    return batches


if __name__ == "__main__":
    main()
