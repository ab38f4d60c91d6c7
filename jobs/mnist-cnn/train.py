"""Train the convolutional network of the MODAK paper on handwritten digits.

The network is the one that arXiv:2008.11675 measures: two convolutions, one pooling, two dense layers,
1,199,882 parameters.  The digits are the 1,797 real 8x8 scans that come with scikit-learn, enlarged to
28x28, so nothing has to be downloaded; each is used several times, shifted by a few pixels.
"""

import argparse
import os

# Before the import, which would otherwise fill the job's log with notes on CPU features and absent GPUs.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

SIDE = 28  # pixels of an enlarged image
JITTER = 2  # pixels that a training image may be shifted by, each way
HELD_OUT = 297  # the last digits are the test, so no image is in both sets
PARAMETERS = 1_199_882
SEED = 1


def digits(samples):
    """Return the training set, of `samples` images, and the test set: pairs of images in [0, 1] and labels."""
    source = load_digits()
    images = enlarge(source.images / source.images.max()).astype("float32")[..., np.newaxis]
    labels = source.target
    random = np.random.default_rng(SEED)
    drawn = np.arange(samples) % (len(images) - HELD_OUT)
    offsets = random.integers(-JITTER, JITTER + 1, size=(2, samples))
    return (shift(images[drawn], *offsets), labels[drawn]), (images[-HELD_OUT:], labels[-HELD_OUT:])


def enlarge(images):
    """Resize square images to SIDE x SIDE by linear interpolation along both axes."""
    old = np.arange(images.shape[-1])
    new = np.linspace(0, old[-1], SIDE)
    weights = np.maximum(0, 1 - np.abs(new[:, np.newaxis] - old))
    return weights @ images @ weights.T


def shift(images, down, right):
    """Move image i by ``down[i]`` rows and ``right[i]`` columns; what enters at the border is black."""
    padded = np.pad(images, ((0, 0), (JITTER, JITTER), (JITTER, JITTER), (0, 0)))
    pixels = np.arange(JITTER, JITTER + SIDE)
    rows = pixels - down[:, np.newaxis]
    columns = pixels - right[:, np.newaxis]
    return padded[np.arange(len(images))[:, np.newaxis, np.newaxis], rows[:, :, np.newaxis], columns[:, np.newaxis]]


def network():
    """Build the paper's network, ready to train."""
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )
    assert model.count_params() == PARAMETERS, f"{model.count_params()} parameters, the paper's has {PARAMETERS}"
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    """Train as the command line says and print the accuracy on digits not trained with."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=6_000, help="images per epoch")
    parser.add_argument("--batch-size", type=int, default=128)
    options = parser.parse_args()

    keras.utils.set_random_seed(SEED)
    train, test = digits(options.samples)
    model = network()
    model.fit(*train, batch_size=options.batch_size, epochs=options.epochs, verbose=2)
    _, accuracy = model.evaluate(*test, batch_size=options.batch_size, verbose=0)
    print(f"test accuracy: {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
