"""What attach costs on the trainer's thread: bench_attach.py [PAIRS]. Two equal models take steps in turns, one of them attached.

Between boundaries: median over the pairs of (step with attach - step without - the correction's own pass) / step without.
At a boundary: time on this thread, in passes over the vector (one pass: a.add_(b) on vectors of that size). Boundary and pass are measured right
after a step, when the caches hold the data of that step; "warm" compares with a pass whose vectors are still in the caches."""

import statistics
import sys
import tempfile
import time

import torch

import p2pml

torch.set_num_threads(1)


class Block(torch.nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        narrow = width // stride
        self.one = torch.nn.Conv2d(narrow, width, 3, stride, 1, bias=False)
        self.two = torch.nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.GroupNorm(4, width) for _ in range(2))
        self.skip = torch.nn.Conv2d(narrow, width, 1, stride, bias=False) if stride > 1 else torch.nn.Identity()

    def forward(self, x):
        y = torch.relu(self.norms[0](self.one(x)))
        return torch.relu(self.norms[1](self.two(y)) + self.skip(x))


def resnet20():
    torch.manual_seed(0)
    blocks = [Block(w, 2 if w > 16 and i == 0 else 1) for w in (16, 32, 64) for i in range(3)]
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 1, 1), *blocks, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                               torch.nn.Linear(64, 10)), torch.randn(8, 3, 32, 32)


def gpt():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(192, 6, 768, 0.0, batch_first=True, norm_first=True)
    return torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.nn.Linear(192, 65)), \
        torch.randn(4, 64, 192)


def step(model, optimizer, x):
    return timed(lambda: (optimizer.zero_grad(), model(x).pow(2).mean().backward(), optimizer.step()))


def timed(call):
    began = time.thread_time()  # of this thread's processor, whatever else the machine does
    call()
    return time.thread_time() - began


def measure(name, make, pairs):
    (plain, x), (shared, _) = make(), make()
    ours, theirs = (torch.optim.AdamW(m.parameters(), lr=1e-4) for m in (shared, plain))
    with tempfile.TemporaryDirectory() as folder:
        attachment = p2pml.attach(p2pml.join(dir=folder, log__level="error"), shared, ours, every=10 ** 9)
        d = attachment.node.parameters
        a, b = torch.zeros(d), torch.zeros(d)
        for _ in range(3):
            step(shared, ours, x), step(plain, theirs, x)
        over = []
        for i in range(pairs):
            turns = [(shared, ours), (plain, theirs)]
            times = {id(m): step(m, o, x) for m, o in (turns if i % 2 else turns[::-1])}
            correction = timed(lambda: attachment._flat.correct(1e-4))
            over.append((times[id(shared)] - times[id(plain)] - correction) / times[id(plain)])
        boundary, cold, warm = [], [], []
        for _ in range(max(50, pairs)):
            step(shared, ours, x)
            boundary.append(timed(attachment.exchange))
            step(shared, ours, x)
            cold.append(timed(lambda: a.add_(b)))
            warm.append(statistics.median(timed(lambda: a.add_(b)) for _ in range(5)))
        boundary, cold, warm = map(statistics.median, (boundary, cold, warm))
        attachment.close()
    print(f"{name}: {d} parameters, step {1000 * statistics.median([step(plain, theirs, x) for _ in range(5)]):.1f} ms, between boundaries "
          f"{100 * statistics.median(over):+.2f}%, a boundary {1e6 * boundary:.0f} us = {boundary / cold:.2f} passes (warm: {boundary / warm:.2f})")


pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
measure("resnet20", resnet20, pairs)
measure("gpt", gpt, pairs)
