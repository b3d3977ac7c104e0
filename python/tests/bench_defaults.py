"""What the defaults of attach reach on uneven data: bench_defaults.py DATA SEEDS STEPS [key=value]...

Three nodes, each with three or four of the ten digits, train a CNN of 2,698 parameters and an MLP of 85,075, with SGD and with AdamW. DATA is
a folder with MNIST's files t10k-*.gz, or "sklearn" for the 1,797 small digits of scikit-learn. For each seed a line with the accuracy of
every node on the images that nobody trains on (2,000; of scikit-learn 400), beside one process with all data; then the worst and the mean
distance of a node to that process. `key=value`: settings of the nodes, such as average.ratio=1/32; `every=30` is an argument of attach,
`models=cnn,mlp` and `optimisers=sgd,adamw` choose what is trained."""

import gzip
import os
import sys
import time

import torch

from uneven import OPTIMISERS, Lesson, cnn, mlp

source, seeds, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
settings = dict(one.split("=", 1) for one in sys.argv[4:])
arguments = {"every": int(settings.pop("every"))} if "every" in settings else {}
models, optimisers = (settings.pop(name, all).split(",") for name, all in (("models", "cnn,mlp"), ("optimisers", ",".join(OPTIMISERS))))
torch.set_num_threads(1)


def idx(name, header):
    with gzip.open(os.path.join(source, name), "rb") as f:
        return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)


def load():
    if source != "sklearn":
        return idx("t10k-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28) / 255, idx("t10k-labels-idx1-ubyte.gz", 8).long(), 2000
    from sklearn.datasets import load_digits
    found = load_digits()
    small = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16
    return torch.nn.functional.interpolate(small, size=(28, 28), mode="bilinear"), torch.tensor(found.target).long(), 400


lesson = Lesson(*load(), steps, settings, arguments)
for make in (one for one in (cnn, mlp) if one.__name__ in models):
    for optimiser in optimisers:
        below = []
        for seed in range(seeds):
            central, began = lesson.central(make, optimiser, seed), time.monotonic()
            nodes, sent, apart, says = zip(*lesson.together(make, optimiser, seed))
            below += [central - one for one in nodes]
            print(f"{make.__name__} {optimiser} {steps} steps, seed {seed}: nodes {' '.join(f'{one:.1f}' for one in nodes)}, one process "
                  f"{central:.1f}; {max(sent):.2f} kB a step, distance {max(apart):.3f}{' (said)' if any(says) else ''}, {time.monotonic() - began:.0f} s",
                  flush=True)
        print(f"{make.__name__} {optimiser} {steps} steps: below one process at most {max(below):.1f}, in the mean "
              f"{sum(below) / len(below):.1f} points", flush=True)
