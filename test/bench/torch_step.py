#!/usr/bin/python3
"""The steps of bench_train_step.c in eager PyTorch, one thread, processor time. Attention is fused if this PyTorch has
scaled_dot_product_attention.

usage: torch_step.py            prints its version, then reads lines "ROW SECONDS" and answers each with a line of JSON:
                                median and least ms of a step on a prepared batch (ready_ms), and of one that
                                takes its batch from a shuffled epoch, as bench_train_step does (ms)
       torch_step.py ROW [SECONDS]
"""
import itertools
import json
import math
import os
import statistics
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

EXAMPLES, CONTEXT, WORDS, WIDTH, HEADS = 4096, 64, 96, 128, 4
GELU = {"approximate": "tanh"} if torch.__version__ >= "1.12" else {}


def mlp(*sizes):
    layers = [nn.Linear(*sizes[:2])]
    for pair in zip(sizes[1:], sizes[2:]):
        layers += [nn.ReLU(), nn.Linear(*pair)]
    return nn.Sequential(*layers)


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1600, 10))


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.stride, self.more = (2, outputs - inputs) if outputs != inputs else (1, 0)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(8, outputs), nn.GroupNorm(8, outputs)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if self.more:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.more))
        return F.relu(x + y)


def resnet20():
    layers, width = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(8, 16), nn.ReLU()], 16
    for outputs in (16, 32, 64):
        for _ in range(3):
            layers.append(Residual(width, outputs))
            width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(CONTEXT, CONTEXT)).view(1, 1, CONTEXT, CONTEXT) == 0)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.attn(self.ln_1(x)).split(WIDTH, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // HEADS)
            y = F.softmax(scores.masked_fill(self.mask, float("-inf")), -1) @ v
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.proj(F.gelu(self.fc(self.ln_2(x)), **GELU))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.ln_f = nn.Sequential(*[Block() for _ in range(4)]), nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(CONTEXT))
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight).flatten(0, 1)


ROWS = {  # model, shape of an example, batch
    "softmax": (lambda: mlp(784, 10), (784,), 64),
    "mlp-256": (lambda: mlp(784, 256, 10), (784,), 64),
    "mlp-512-512": (lambda: mlp(784, 512, 512, 10), (784,), 64),
    "mlp-512-512-b256": (lambda: mlp(784, 512, 512, 10), (784,), 256),
    "lenet": (lenet, (1, 28, 28), 64),
    "cnn": (cnn, (1, 28, 28), 64),
    "resnet20": (resnet20, (3, 32, 32), 64),
    "gpt": (GPT, None, 16),
}


def examples(shape):
    if shape:
        return torch.rand(EXAMPLES, *shape), torch.randint(0, 10, (EXAMPLES,))
    ids = torch.randint(0, WORDS, (EXAMPLES // 4, CONTEXT + 1))
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def epochs(count, batch):
    while True:
        yield from torch.randperm(count)[:count // batch * batch].split(batch)


def timed(step, batches, seconds):
    times, end = [], time.process_time() + seconds
    while time.process_time() < end or len(times) < 3:
        begun = time.process_time()
        step(*next(batches))
        times.append((time.process_time() - begun) * 1e3)
    return times


def measure(row, seconds):
    make, shape, batch = ROWS[row]
    torch.manual_seed(7)
    x, y = examples(shape)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if shape else torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def step(inputs, labels):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), labels.flatten()).backward()
        optimizer.step()

    ready = itertools.cycle(zip(x[:16 * batch].split(batch), y[:16 * batch].split(batch)))
    drawn = ((x[index], y[index]) for index in epochs(len(x), batch))
    answer = {"row": row, "torch": torch.__version__}
    for name, batches in (("ready_ms", ready), ("ms", drawn)):
        times = timed(step, batches, seconds / 2)
        answer[name], answer[name + "_min"] = statistics.median(times), min(times)
    return answer


def main():
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 2.0)))
        return
    print(f"torch {torch.__version__}", flush=True)
    for line in sys.stdin:
        row, seconds = line.split()
        print(json.dumps(measure(row, float(seconds))), flush=True)


if __name__ == "__main__":
    main()
