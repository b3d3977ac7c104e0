"""What attach costs on the trainer's thread: bench_attach.py [PAIRS]

Two equal models take steps in turns, one of them attached. All times are of this thread's processor. Without the correction's own pass:

hooks: all that runs before and after the optimiser's own step, timed around it, part of a step without attach (medians).
step: step with attach - step without, part of a step without; the median over the pairs, and the range that holds the true median with 95%.
It has what the hooks do to the caches, and the noise of two whole steps.

A boundary is given in passes over the vector (one: a.add_(b) on vectors of that size). Both come right after a step, when the
caches hold what the step has used; "warm" is against a pass whose vectors are still in the caches from the one before."""

import contextlib
import math
import statistics
import sys
import tempfile
import time

import torch
from torch.optim import optimizer as hooks

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


MODELS = {"resnet20": resnet20, "gpt": gpt}


def timed(call):
    began = time.thread_time()  # of this thread's processor, whatever else the machine does
    call()
    return time.thread_time() - began


class Pass:
    """Stands for the vector: times the correction's pass where it happens."""

    def __init__(self, vector):
        self.vector, self.seconds = vector, 0.0

    def add_(self, *a, **b):
        self.seconds = timed(lambda: self.vector.add_(*a, **b))

    def __getattr__(self, name):
        return getattr(self.vector, name)


class Pair:
    """A model that is attached and one that is not."""

    def __init__(self, make, folder):
        (self.plain, self.x), (self.shared, _) = make(), make()
        self.ours, self.theirs = (torch.optim.AdamW(m.parameters(), lr=1e-4) for m in (self.shared, self.plain))
        self.marks = []
        # Hooks run in the order of their registration, those of all optimisers before, and after a step, behind those of one.
        self.ours.register_step_pre_hook(self.mark)
        self.node = p2pml.join(dir=folder, log__level="error")
        self.ours.register_step_post_hook(self.mark)
        self.attachment = p2pml.attach(self.node, self.shared, self.ours, every=10 ** 9)
        self.ours.register_step_pre_hook(self.mark)
        self.last = hooks.register_optimizer_step_post_hook(self.mark)
        for _ in range(3):
            self.step(True), self.step(False)

    def mark(self, optimizer, *_):
        if optimizer is self.ours:
            self.marks.append(time.thread_time())

    def step(self, attached):
        """Seconds."""
        model, optimizer = (self.shared, self.ours) if attached else (self.plain, self.theirs)
        if attached:
            self.marks.clear()
        with contextlib.nullcontext() if attached else without_p2pml():
            return timed(lambda: (optimizer.zero_grad(), model(self.x).pow(2).mean().backward(), optimizer.step()))

    def hooks(self):
        """Seconds of the last step that was attached."""
        a, b, c, d = self.marks
        return b - a + d - c

    def close(self):
        self.last.remove()
        self.attachment.close()


@contextlib.contextmanager
def without_p2pml():
    """A program without p2pml has none of its hooks on every optimiser."""
    held = hooks._global_optimizer_post_hooks
    kept = dict(held)
    held.clear()
    yield
    held.update(kept)


def middle(values):
    """The range that holds the median of what these are drawn from, with 95%."""
    values, half = sorted(values), 0.98 * math.sqrt(len(values))
    return values[max(0, math.floor(len(values) / 2 - half))], values[min(len(values) - 1, math.ceil(len(values) / 2 + half))]


def measure(name, pairs):
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(MODELS[name], folder)
        d = pair.attachment.node.parameters
        a, b = torch.zeros(d), torch.zeros(d)
        flat = pair.attachment._flat
        flat._vector = correction = Pass(flat._vector)
        over, in_hooks, plain = [], [], []
        for i in range(pairs):
            times = {attached: pair.step(attached) for attached in ((True, False) if i % 2 else (False, True))}
            over.append((times[True] - times[False] - correction.seconds) / times[False])
            in_hooks.append(pair.hooks() - correction.seconds)
            plain.append(times[False])
        flat._vector = correction.vector
        boundary, cold, warm = [], [], []
        for _ in range(max(50, pairs)):
            pair.step(True)
            boundary.append(timed(pair.attachment.exchange))
            pair.step(True)
            cold.append(timed(lambda: a.add_(b)))
            warm.append(statistics.median(timed(lambda: a.add_(b)) for _ in range(5)))
        step, in_hooks, boundary, cold, warm = map(statistics.median, (plain, in_hooks, boundary, cold, warm))
        pair.close()
    low, high = middle(over)
    print(f"{name}: {d} parameters, step {1000 * step:.1f} ms, hooks {1e6 * in_hooks:.0f} us = {100 * in_hooks / step:.2f}%, step "
          f"{100 * statistics.median(over):+.2f}% ({100 * low:+.2f} to {100 * high:+.2f}), a boundary {1e6 * boundary:.0f} us = "
          f"{boundary / cold:.2f} passes (warm: {boundary / warm:.2f})", flush=True)


pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
for name in MODELS:
    measure(name, pairs)
