#!/usr/bin/python3
"""The step of bench_train_step.c in eager PyTorch: MLP 784-256-10, batch 64, SGD, one thread.

usage: torch_step.py [seconds]     (Debian and Ubuntu: apt-get install python3-torch)
"""
import statistics
import sys
import time

import torch

INPUTS, HIDDEN, CLASSES, BATCH, BATCHES = 784, 256, 10, 64, 16


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    torch.set_num_threads(1)
    torch.manual_seed(7)
    x = torch.rand(BATCHES, BATCH, INPUTS)
    labels = torch.randint(0, CLASSES, (BATCHES, BATCH))
    model = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_function = torch.nn.CrossEntropyLoss()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        i = len(times) % BATCHES
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(x[i]), labels[i])
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - start) * 1e3)
    print(f"torch {torch.__version__}")
    print(f"train_step_ms median={statistics.median(times):.4f} min={min(times):.4f} steps={len(times)}")


if __name__ == "__main__":
    main()
