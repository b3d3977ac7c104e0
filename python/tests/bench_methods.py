"""Compares p2pml with methods over torch.distributed, on one model, data order and seed: bench_methods.py cnn|gpt|mlp [--nodes N] [--steps S] [--seeds K].

cnn: LeNet on the 10,000 images of MNIST's test set (8,000 to train on, Dirichlet 0.1 over the nodes, 2,000 to test).
mlp: the model and data of configs/mnist-dirichlet.yaml; `--only builtin p2pml` compares the built-in trainer with PyTorch.
    With `--order bench_train_order` (test/bench) both use the same initial weights, shards and batches. With `--unweighted` all nodes count
    the same, however many examples they have.
gpt: 2 layers, 64 wide, context 32, on the characters of tinyshakespeare, a contiguous part per node, the last tenth to test.

central: one process that takes the batches of all nodes at once; except for rounding, an all-reduce of every gradient gives the same. all-reduce
and DiLoCo (outer Nesterov 0.9) run over gloo; only the bytes of a ring all-reduce are counted, 8 (N-1)/N per parameter and node. p2pml: three
lines, sync; its bytes are everything that a node sends, including membership (mean of the nodes). `--p2pml 1/10:4:average.values=int4`
sets further keys. `--rate` tries every method at each of the given learning rates."""

import argparse
import gzip
import itertools
import math
import multiprocessing
import os
import subprocess
import tempfile
import time

import torch
import torch.distributed as dist

import p2pml
from p2pml import lab
from processes import ROOT, free_ports

DATA = os.path.join(ROOT, "data")  # of `p2pml data fetch`


# -- models and data: make(), shard(node, nodes, seed) -> a batch for a list of places, test(model) -> figure

class Digits:
    rate, batch, unit, digits = 0.1, 32, "accuracy, %", 2

    def __init__(self, data):
        def idx(name, header):
            with gzip.open(os.path.join(data, name)) as f:
                return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)
        images, labels = idx("t10k-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28) / 255, idx("t10k-labels-idx1-ubyte.gz", 8).long()
        order = self.order(len(labels))
        self.images, self.labels, self.data = images[order], labels[order], data

    def order(self, count):
        return torch.randperm(count, generator=torch.Generator().manual_seed(0))

    def schedule(self, done):
        return 0.55 + 0.45 * math.cos(math.pi * done)

    def make(self):
        return torch.nn.Sequential(torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 16, 5),
                                   torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(400, 120), torch.nn.ReLU(),
                                   torch.nn.Linear(120, 84), torch.nn.ReLU(), torch.nn.Linear(84, 10))

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=self.rate)

    def shards(self, nodes, seed):
        """Dirichlet 0.1: each class is dealt out in shares of its own, until every node has a batch."""
        torch.manual_seed(seed)
        labels = self.labels[:8000]
        while True:
            mine = [[] for _ in range(nodes)]
            for digit in range(10):
                places = (labels == digit).nonzero()[:, 0]
                ends = (torch.distributions.Dirichlet(torch.full((nodes,), 0.1)).sample().cumsum(0) * len(places)).long()[:-1]
                for node, part in enumerate(places.tensor_split(ends)):
                    mine[node].append(part)
            if min(sum(map(len, parts)) for parts in mine) >= self.batch:
                return [torch.cat(parts) for parts in mine]

    def loss(self, model, places):
        return torch.nn.functional.cross_entropy(model(self.images[places]), self.labels[places])

    def test(self, model):
        return 100 * (model(self.images[8000:]).argmax(1) == self.labels[8000:]).float().mean().item()


class Perceptron(Digits):
    def make(self):
        layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        for layer in layers[1], layers[3]:  # as the trainer that is built in begins
            torch.nn.init.kaiming_normal_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
        return layers

    def order(self, count):
        return torch.arange(count)

    def schedule(self, done):
        return 1 if done < 0.6 else 0.3 if done < 0.85 else 0.1

    def take_order(self, program, run, seed):
        """Initial weights, shards and batches of the built-in trainer, and the weight of each node."""
        files = [os.path.join(self.data, f"t10k-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1")]
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run([program, *files, *map(str, (seed, run.nodes, run.steps, self.batch)), file.name], check=True)
            data = bytearray(file.read())
        with torch.no_grad():
            at = 0
            for layer in run.model[1], run.model[3]:
                for p in layer.weight, layer.bias:
                    count, shape = p.numel(), p.shape[::-1]  # [inputs, outputs] there
                    p.copy_(torch.frombuffer(data, dtype=torch.float32, count=count, offset=4 * at).view(shape).t() if p.dim() == 2 else 0)
                    at += count
        places = torch.frombuffer(data, dtype=torch.int32, offset=4 * at).view(run.nodes, -1)
        run.weights = (places[:, 0].clone().view(torch.float32) * run.nodes).tolist()
        run.places = [node[1:].long().view(run.steps, self.batch) for node in places]

    def builtin(self, nodes, steps, seed, ratio, every):
        """The averaged model's accuracy, and the bytes of a node."""
        images, labels = (os.path.join(self.data, f"t10k-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1"))
        result = lab.sim({
            "experiment": {"nodes": nodes, "seed": seed, "baselines": []}, "model": {"kind": "mlp", "hidden": [256]},
            "data": {"kind": "idx", "train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels,
                     "train_count": 8000, "test_first": 8000, "test_count": 2000, "partition": "dirichlet", "alpha": 0.1},
            "train": {"optimizer": "sgd", "rate": self.rate, "batch": self.batch, "steps": steps, "eval_rounds": 0,
                      "schedule": ["0.6:0.3", "0.85:0.1"]},
            "average": {"mode": "sync", "local_steps": every, "ratio": ratio}, "topology": {"kind": "butterfly"}}).results.iloc[0]
        return 100 * result["accuracy"], result["bytes"] / nodes


class Text:
    rate, batch, unit, digits = 6e-3, 8, "test loss, nats", 3
    context, width = 32, 64

    def schedule(self, done):
        return 0.55 + 0.45 * math.cos(math.pi * done)

    def __init__(self, data):
        with open(os.path.join(data, "tinyshakespeare.txt"), encoding="utf-8") as f:
            text = f.read()
        letters = {c: i for i, c in enumerate(sorted(set(text)))}
        self.letters, self.tokens = len(letters), torch.tensor([letters[c] for c in text])
        self.train = len(text) * 9 // 10

    def make(self):
        return GPT(self.letters, self.width, self.context)

    def optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=self.rate, betas=(0.9, 0.99), weight_decay=0.1)

    def shards(self, nodes, _):
        part = self.train // nodes
        return [torch.arange(i * part, (i + 1) * part - self.context) for i in range(nodes)]

    def loss(self, model, places):
        x = self.tokens[places[:, None] + torch.arange(self.context + 1)]
        return torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    def test(self, model):
        places = torch.arange(self.train, len(self.tokens) - self.context - 1, self.context)
        return sum(self.loss(model, part).item() * len(part) for part in places.split(500)) / len(places)


class GPT(torch.nn.Module):
    def __init__(self, letters, width, context):
        super().__init__()
        self.token, self.place = torch.nn.Embedding(letters, width), torch.nn.Embedding(context, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers, self.norm = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, letters)

    def forward(self, x):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.norm(self.layers(self.token(x) + self.place.weight[:x.shape[1]], mask=mask)))


# -- one method on one node

class Run:
    """The loop is the same for all methods; a method adds ``after_backward`` and ``after_step``."""

    def __init__(self, task, rank, nodes, steps, seed, order=None, unweighted=False):
        self.task, self.rank, self.nodes, self.steps = task, rank, nodes, steps
        torch.manual_seed(seed)
        self.model = task.make()
        self.optimizer = task.optimizer(self.model)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda t: (1 if order else min(1, (t + 1) / 20)) * task.schedule(t / steps))
        self.places, self.weights = [], [1.0] * nodes
        for node, shard in enumerate(task.shards(nodes, seed)):
            drawn = torch.randint(len(shard), (steps, task.batch), generator=torch.Generator().manual_seed(1000 * seed + node))
            self.places.append(shard[drawn])
        self.d, self.bytes, self.figure = sum(p.numel() for p in self.model.parameters()), 0.0, None
        self.seed = seed
        if order:
            task.take_order(order, self, seed)
        if unweighted:
            self.weights = [1.0] * nodes

    def train(self, batches, after_backward=lambda: None, after_step=lambda done: None):
        weight = self.weights[self.rank] if batches is self.places[self.rank] else 1.0
        for step in range(self.steps):
            self.optimizer.zero_grad()
            (weight * self.task.loss(self.model, batches[step])).backward()
            after_backward()
            self.optimizer.step()
            self.schedule.step()
            after_step(step + 1)

    def mean(self, vector):
        dist.all_reduce(vector)
        self.bytes += 8 * self.d * (self.nodes - 1) / self.nodes
        return vector.div_(self.nodes)

    def vector(self):
        return torch.nn.utils.parameters_to_vector(self.model.parameters()).detach()

    def central(self):
        if self.rank == 0:
            self.train(torch.cat(self.places, 1))
        vector = self.vector()
        dist.broadcast(vector, 0)
        torch.nn.utils.vector_to_parameters(vector, self.model.parameters())

    def all_reduce(self):
        def after_backward():
            mean = self.mean(torch.nn.utils.parameters_to_vector(p.grad for p in self.model.parameters()))
            torch.nn.utils.vector_to_parameters(mean, [p.grad for p in self.model.parameters()])
        self.train(self.places[self.rank], after_backward)

    def diloco(self, every, rate):
        outer = torch.nn.Parameter(self.vector())
        optimizer = torch.optim.SGD([outer], lr=rate, momentum=0.9, nesterov=True)

        def after_step(done):
            if done % every == 0 or done == self.steps:
                outer.grad = self.mean(outer.detach() - self.vector())
                optimizer.step()
                torch.nn.utils.vector_to_parameters(outer.detach().clone(), self.model.parameters())
        self.train(self.places[self.rank], after_step=after_step)

    def builtin(self, ratio, every):
        if self.rank == 0:
            self.figure, self.bytes = self.task.builtin(self.nodes, self.steps, self.seed, ratio, every)
            self.bytes *= self.nodes
        dist.barrier()

    def p2pml(self, ratio, every, *settings):
        ports = [free_ports(self.nodes) if self.rank == 0 else None]
        dist.broadcast_object_list(ports)
        peers = [f"127.0.0.1:{p}" for i, p in enumerate(ports[0]) if i != self.rank]
        with tempfile.TemporaryDirectory() as folder:
            node = p2pml.join(peers, listen=f"127.0.0.1:{ports[0][self.rank]}", dir=folder, log__level="error", topology__kind="butterfly",
                              average__mode="sync", average__ratio=ratio, average__deadline_ceiling="120s", node__start_timeout="300s",
                              **dict(pair.split("=") for pair in settings))
            attachment = p2pml.attach(node, self.model, self.optimizer, every=every, group=False)
            self.train(self.places[self.rank])
            self.bytes = node.status()["bytes_sent"]
            dist.barrier()  # before any process leaves
            attachment.close()


def averaged(run):
    """The result of the averaged model, and the mean bytes of a node."""
    vector, sent = run.vector(), torch.tensor(float(run.bytes))
    dist.all_reduce(vector)
    dist.all_reduce(sent)
    torch.nn.utils.vector_to_parameters(vector / run.nodes, run.model.parameters())
    with torch.no_grad():
        return run.figure or (run.task.test(run.model) if run.rank == 0 else 0.0), sent.item() / run.nodes


def work(rank, options, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=options.nodes)
    task = {"cnn": Digits, "gpt": Text, "mlp": Perceptron}[options.model](
        options.data or os.path.join(DATA, "tiny-shakespeare" if options.model == "gpt" else "mnist"))
    task.batch = options.batch or task.batch
    methods = [("central",), ("all_reduce",)] + [("diloco", h, r) for h in options.every for r in options.outer]
    pairs = [(ratio, int(every), *more) for ratio, every, *more in (pair.split(":") for pair in options.p2pml)]
    methods += [("p2pml", *pair) for pair in pairs] + [("builtin", *pair[:2]) for pair in pairs if options.model == "mlp"]
    for rate, method in itertools.product(options.rate or [task.rate], methods):
        if options.only and method[0] not in options.only:
            continue
        task.rate = rate
        began, found = time.monotonic(), []
        for seed in range(options.seeds):
            run = Run(task, rank, options.nodes, options.steps, seed, options.order, options.unweighted)
            getattr(run, method[0])(*method[1:])
            found.append(averaged(run))
        if rank == 0:
            show(task, run.d, (*method, "at", rate), found, options, time.monotonic() - began)


def show(task, d, method, found, options, seconds):
    figures = [figure for figure, _ in found]
    sent, whole = sum(b for _, b in found) / len(found), options.steps * 8 * d * (options.nodes - 1) / options.nodes
    print(f"| {' '.join(map(str, method))} | {sum(figures) / len(figures):.{task.digits}f} | "
          f"{', '.join(f'{f:.{task.digits}f}' for f in figures)} | {sent / 1e6:.2f} | {f'1/{whole / sent:.0f}' if sent else '-'} | {seconds:.0f} |",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("cnn", "gpt", "mlp"))
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, help="of a node; 32, or 8 of gpt")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--every", type=int, nargs="*", default=[10, 30, 100], help="H of DiLoCo")
    parser.add_argument("--outer", type=float, nargs="*", default=[0.4, 0.7], help="its outer learning rates")
    parser.add_argument("--p2pml", nargs="*", default=["1/10:4", "1/16:2", "1/32:1"], help="average.ratio and local steps")
    parser.add_argument("--rate", type=float, nargs="*", help="learning rates; 0.1, or 0.006 of gpt")
    parser.add_argument("--only", nargs="*", help="central, all_reduce, diloco, p2pml, builtin")
    parser.add_argument("--order", help="mlp: path of bench_train_order")
    parser.add_argument("--unweighted", action="store_true", help="with --order: every node counts the same")
    parser.add_argument("--data", help="folder with t10k-images-idx3-ubyte.gz and so on, or tinyshakespeare.txt; data/mnist, data/tiny-shakespeare")
    options = parser.parse_args()
    print(f"{options.model}, {options.nodes} nodes, {options.steps} steps, {options.seeds} seeds\n\n| method | mean | each seed | MB a node | of all-reduce | s |\n"
          "|---|---|---|---|---|---|", flush=True)
    port = free_ports(1)[0]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(rank, options, port)) for rank in range(options.nodes)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    raise SystemExit(any(process.exitcode for process in processes))


if __name__ == "__main__":
    main()
