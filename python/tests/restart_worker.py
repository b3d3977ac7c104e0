"""A program that may be killed, restarted or started late, unchanged: restart_worker.py gpt|resnet|hf DIR INDEX MEMBERS STEPS PORT...

It imports all it needs, says "warm" and begins with a line on standard input; "step N" follows, and "accuracy" at the end. MEMBERS: how many nodes
the first ones wait for."""

import math
import sys

import torch

import p2pml

kind, folder, index, members, steps, ports = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6:]
torch.set_num_threads(1)
if kind == "hf":
    import transformers

    import p2pml.huggingface


def drawn(*numbers):
    return torch.Generator().manual_seed(sum(1000 ** i * n for i, n in enumerate(numbers)))


def text(count, generator):
    words = ["the ", "cat ", "sat ", "on ", "a ", "mat ", "and ", "ran "]
    said = "".join(words[i] for i in torch.randint(len(words), (count,), generator=generator))
    return torch.tensor([ord(c) - 96 if c != " " else 0 for c in said])


class Gpt(torch.nn.Module):
    data, test = (text(4000, drawn(index)), text(1000, drawn(7))) if kind == "gpt" else (None, None)

    def __init__(self):
        super().__init__()
        self.token, self.place = torch.nn.Embedding(27, 32), torch.nn.Embedding(24, 32)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 128, 0.0, batch_first=True, norm_first=True)
        self.layers, self.head = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.nn.Linear(32, 27)

    def forward(self, x):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.layers(self.token(x) + self.place.weight[:x.shape[1]], mask=mask)).flatten(0, 1)

    def batch(self, source, count, generator=None):
        at = torch.randint(len(source) - 25, (count,), generator=generator)
        x = torch.stack([source[i:i + 25] for i in at])
        return x[:, :-1], x[:, 1:].flatten()


def images(count, generator):
    shapes = torch.nn.functional.interpolate(torch.rand(10, 1, 5, 5, generator=drawn(7)), size=(12, 12))
    labels = torch.randint(10, (count,), generator=generator)
    return shapes[labels] + 0.5 * torch.randn(count, 1, 12, 12, generator=generator), labels


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = torch.nn.Sequential(torch.nn.Conv2d(12, 12, 3, padding=1, bias=False), torch.nn.BatchNorm2d(12), torch.nn.ReLU(),
                                          torch.nn.Conv2d(12, 12, 3, padding=1, bias=False), torch.nn.BatchNorm2d(12))

    def forward(self, x):
        return torch.relu(x + self.inside(x))


class ResNet(torch.nn.Sequential):
    data, test = (images(2000, drawn(index)), images(2000, drawn(7))) if kind == "resnet" else (None, None)

    def __init__(self):
        super().__init__(torch.nn.Conv2d(1, 12, 3, 2, 1), torch.nn.BatchNorm2d(12), Block(), Block(), torch.nn.AdaptiveAvgPool2d(3),
                         torch.nn.Flatten(), torch.nn.Linear(108, 10))

    def batch(self, source, count, generator=None):
        at = torch.randint(len(source[1]), (count,), generator=generator)
        return source[0][at], source[1][at]


def loop(node, model, optimizer, rates):
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rates)
    together = p2pml.attach(node, model, optimizer, scheduler=scheduler, steps=steps)
    while not together.done:
        x, y = model.batch(model.data, 32)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        print("step", together.step, flush=True)
    together.close()
    model.eval()
    with torch.no_grad():
        x, y = model.batch(model.test, 1000, drawn(8))
        return (model(x).argmax(1) == y).float().mean().item()


def gpt(node):
    model = Gpt()
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return loop(node, model, torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95)),
                lambda step: min(1, (step + 1) / 20) * (0.05 + 0.475 * (1 + math.cos(math.pi * min(step, steps) / steps))))


def resnet(node):
    model = ResNet()
    return loop(node, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                lambda step: 0.01 + 0.495 * (1 + math.cos(math.pi * min(step, steps) / steps)))


def hf(node):
    truth = torch.randn(20, 4, generator=drawn(5))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

        def forward(self, x, labels):
            logits = self.layers(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    class Tells(transformers.TrainerCallback):
        def on_step_end(self, arguments, state, control, **_):
            print("step", state.global_step, flush=True)

    def examples(count, seed):
        x = torch.randn(count, 20, generator=drawn(seed))
        return [{"x": a, "labels": b} for a, b in zip(x, (x @ truth).argmax(1))]
    arguments = transformers.TrainingArguments(f"{folder}/hf{index}", max_steps=steps, per_device_train_batch_size=32, learning_rate=5e-3,
                                               save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=index)
    trainer = transformers.Trainer(Model(), arguments, train_dataset=examples(8000, 10 + index), eval_dataset=examples(2000, 1),
                                   compute_metrics=lambda e: {"accuracy": float((e.predictions.argmax(1) == e.label_ids).mean())},
                                   callbacks=[p2pml.huggingface.Callback(node), Tells()])
    trainer.train()
    return trainer.evaluate()["eval_accuracy"]


print("warm", flush=True)
sys.stdin.readline()
torch.manual_seed(index)
peers = [f"127.0.0.1:{port}" for port in ports if port != ports[index]]
print("accuracy", {"gpt": gpt, "resnet": resnet, "hf": hf}[kind](
    p2pml.join(peers, dir=f"{folder}/{index}", listen=f"127.0.0.1:{ports[index]}", node__start_members=members, log__level="info")), flush=True)
