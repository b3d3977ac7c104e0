"""What the defaults of attach reach on uneven data: bench_defaults.py MNIST-FOLDER SEEDS STEPS [key=value]...

Three nodes, each with three or four of the ten digits (8,000 images in all), exchange every 5 steps; a CNN of 2,826 parameters and an MLP of
84,060, with SGD and AdamW. Prints the accuracy of the worst and the best node on the last 2,000 images, for each seed, and their medians beside that of one process on all data. `key=value`:
settings of the nodes, such as average.ratio=0.03125."""

import gzip
import os
import statistics
import sys
import tempfile
import threading

import torch

import p2pml
from processes import free_ports

folder, seeds, steps, settings = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), dict(one.split("=") for one in sys.argv[4:])
torch.set_num_threads(1)
EVERY, NODES, BATCH = 5, 3, 32


def idx(name, header):
    with gzip.open(os.path.join(folder, name), "rb") as f:
        return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)


images, labels = idx("t10k-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28) / 255, idx("t10k-labels-idx1-ubyte.gz", 8).long()
test, truth, images, labels = images[-2000:], labels[-2000:], images[:8000], labels[:8000]


def cnn():
    return torch.nn.Sequential(torch.nn.Conv2d(1, 8, 5, 2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, 2), torch.nn.ReLU(),
                               torch.nn.AdaptiveAvgPool2d(3), torch.nn.Flatten(), torch.nn.Linear(144, 10))


def mlp():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 104), torch.nn.ReLU(), torch.nn.Linear(104, 22), torch.nn.ReLU(),
                               torch.nn.Linear(22, 10))


MODELS = {"cnn": cnn, "mlp": mlp}
OPTIMISERS = {"sgd": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.5), "adamw": lambda ps: torch.optim.AdamW(ps, lr=2e-3)}


def train(model, optimizer, mine, seed, ends):
    x, y, random = images[mine], labels[mine], torch.Generator().manual_seed(seed)
    for step in range(steps):
        batch = torch.randint(len(y), (BATCH,), generator=random)
        torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
        optimizer.zero_grad()
        if ends(step + 1):
            break
    with torch.no_grad():
        return 100 * (model(test).argmax(1) == truth).float().mean().item()


def alone(make, optimiser, seed):
    torch.manual_seed(seed)
    model = make()
    return train(model, OPTIMISERS[optimiser](model.parameters()), torch.ones(len(labels), dtype=torch.bool), seed, lambda step: False)


def together(make, optimiser, seed):
    ports, found, failed = free_ports(NODES), [0.0] * NODES, []
    torch.manual_seed(seed)
    models = [make() for _ in range(NODES)]
    with tempfile.TemporaryDirectory(prefix="p2pml-defaults-") as place:
        def run(i):
            try:
                peers = ",".join(f"127.0.0.1:{port}" for k, port in enumerate(ports) if k != i)
                node = p2pml.join(peers, listen=f"127.0.0.1:{ports[i]}", dir=os.path.join(place, str(i)), node__http="", log__level="error",
                                  node__start_members=NODES, **settings)
                optimizer = OPTIMISERS[optimiser](models[i].parameters())
                with p2pml.attach(node, models[i], optimizer, every=EVERY) as attachment:
                    found[i] = train(models[i], optimizer, labels % NODES == i, 100 * seed + i, lambda step: attachment.step >= steps)
            except BaseException as error:
                failed.append(error)
        threads = [threading.Thread(target=run, args=(i,)) for i in range(NODES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
    return min(found), max(found)


for name, make in MODELS.items():
    for optimiser in OPTIMISERS:
        central = statistics.median(alone(make, optimiser, seed) for seed in range(seeds))
        worst, best = zip(*(together(make, optimiser, seed) for seed in range(seeds)))
        print(f"{name} {optimiser} {steps} steps: nodes {statistics.median(worst):.1f} to {statistics.median(best):.1f} (all seeds "
              f"{min(worst):.1f} to {max(best):.1f}), one process {central:.1f}", flush=True)
