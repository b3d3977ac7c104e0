"""One process of a cluster that trains an MLP: worker.py FOLDER INDEX STEPS SEED PORT...

STEPS: the steps of this process; or `all` and a number: until the cluster has taken so many. SEED: for its initial weights. Each process sees half of the
classes. Prints the accuracy on all of them, as `accuracy 0.97`."""

import sys

import torch

import p2pml

folder, index, steps, seed, ports = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5:]
torch.set_num_threads(1)
torch.manual_seed(seed)
model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

node = p2pml.join([f"127.0.0.1:{p}" for i, p in enumerate(ports) if i != index], listen=f"127.0.0.1:{ports[index]}",
                  dir=f"{folder}/{index}", log__level="info")
attachment = p2pml.attach(node, model, optimizer, every=10)
print("begun at", attachment.node.status()["step"], flush=True)

truth = torch.randn(20, 4, generator=torch.Generator().manual_seed(5))
torch.manual_seed(100 + index)


def is_over(done):
    if steps.startswith("all"):
        return node.status()["step"] >= int(steps[3:])
    return done == int(steps)


done = 0
while not is_over(done):
    done += 1
    x = torch.randn(64, 20)
    y = (x @ truth).argmax(1)
    mine = y % 2 == index % 2
    loss = torch.nn.functional.cross_entropy(model(x[mine]), y[mine])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

attachment.close()
x = torch.randn(4000, 20)
print("accuracy", (model(x).argmax(1) == (x @ truth).argmax(1)).float().mean().item(), flush=True)
