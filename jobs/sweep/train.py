"""A small neural network on two interleaved half circles, in plain Python: what a sweep can search."""

import argparse
import math
import os
import pickle
import random

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--hidden", type=int, default=8)
parser.add_argument("--optimizer", choices=["sgd", "momentum"], default="sgd")
parser.add_argument("--momentum", type=float, default=0.0)
parser.add_argument("--epochs", type=int, default=27)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--checkpoint", help="file that is written after each epoch")
args = parser.parse_args()

dice = random.Random(args.seed)


def half_circles(count):
    points = []
    for n in range(count):
        label, angle = n % 2, math.pi * dice.random()
        x, y = math.cos(angle), math.sin(angle)
        if label:
            x, y = 1.0 - x, 0.5 - y
        points.append((x + dice.gauss(0, 0.2), y + dice.gauss(0, 0.2), label))
    return points


train, held_out = half_circles(300), half_circles(300)
size = args.hidden
first = [[dice.gauss(0, 1) for _ in range(3)] for _ in range(size)]
second = [dice.gauss(0, 1) / math.sqrt(size) for _ in range(size + 1)]
speed_1 = [[0.0] * 3 for _ in range(size)]
speed_2 = [0.0] * (size + 1)
momentum = args.momentum if args.optimizer == "momentum" else 0.0


def forward(x, y):
    hidden = [math.tanh(w[0] * x + w[1] * y + w[2]) for w in first]
    total = sum(w * h for w, h in zip(second, hidden)) + second[size]
    return hidden, 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total))))


def loss_of(points):
    total, right = 0.0, 0
    for x, y, label in points:
        _, p = forward(x, y)
        total -= math.log(max(1e-12, p if label else 1.0 - p))
        right += (p > 0.5) == bool(label)
    return total / len(points), right / len(points)


def save(epoch):
    with open(args.checkpoint + ".tmp", "wb") as file:
        pickle.dump((epoch, train, first, second, speed_1, speed_2, dice.getstate()), file)
    os.replace(args.checkpoint + ".tmp", args.checkpoint)


done = 0
if os.environ.get("DLRUN_RESUME_FROM"):
    with open(os.environ["DLRUN_RESUME_FROM"], "rb") as file:
        done, train, first, second, speed_1, speed_2, state = pickle.load(file)
    dice.setstate(state)

for epoch in range(done + 1, args.epochs + 1):
    dice.shuffle(train)
    for x, y, label in train:
        hidden, p = forward(x, y)
        error = p - label
        for n in range(size):
            back = error * second[n] * (1.0 - hidden[n] ** 2)
            for k, value in enumerate((x, y, 1.0)):
                speed_1[n][k] = momentum * speed_1[n][k] - args.lr * back * value
                first[n][k] += speed_1[n][k]
            speed_2[n] = momentum * speed_2[n] - args.lr * error * hidden[n]
            second[n] += speed_2[n]
        speed_2[size] = momentum * speed_2[size] - args.lr * error
        second[size] += speed_2[size]
    if args.checkpoint:
        save(epoch)
    (loss, _), (val_loss, accuracy) = loss_of(train), loss_of(held_out)
    print(f"Epoch {epoch}/{args.epochs} - loss: {loss:.4f} - val_loss: {val_loss:.4f} - val_accuracy: {accuracy:.4f}", flush=True)
