"""LoRA on a tiny transformer with random weights, two processes: lora.py DIR INDEX STEPS AB|B PORT PORT.

Only the adapters are exchanged. The product of the averaged A and the averaged B differs from the average of the products, unless only B is trained
(A is frozen and the same on all nodes)."""
import sys
import torch
import p2pml
from p2pml.pytorch import adapters

folder, index, steps, train, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]
torch.set_num_threads(1)
torch.manual_seed(0)  # the same base model and the same A everywhere


class LoRA(torch.nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.lora_A = torch.nn.Parameter(torch.randn(rank, base.in_features) / rank)
        self.lora_B = torch.nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.lora_A.T @ self.lora_B.T


layer = torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
layer.linear1, layer.linear2 = LoRA(layer.linear1), LoRA(layer.linear2)
model = torch.nn.Sequential(torch.nn.Embedding(12, 16), layer, torch.nn.Flatten(), LoRA(torch.nn.Linear(8 * 16, 12)))
optimizer = torch.optim.AdamW(adapters(model, train), lr=1e-2)
node = p2pml.join(f"127.0.0.1:{ports[1 - index]}", dir=f"{folder}/{index}", listen=f"127.0.0.1:{ports[index]}", average__mode="sync",
                  average__ratio=1)
together = p2pml.attach(node, model, optimizer, every=5, steps=steps)


def batch(count, halves):
    """A batch. The target of each row is its most frequent token, drawn from the half of the tokens that this process sees."""
    x = torch.randint(12, (count, 8))
    favourite = torch.randint(6, (count, 1)) * 2 + torch.randint(halves, (count, 1)) + (index if halves == 1 else 0)
    return torch.where(torch.rand(count, 8) < 0.6, favourite, x), favourite[:, 0]


torch.manual_seed(10 + index)
while not together.done:  # in the cluster's steps: a process may be killed and started again
    x, y = batch(32, 1)
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    x, y = batch(2000, 2)
    print("accuracy", (model(x).argmax(1) == y).float().mean().item(), "parameters", node.parameters, flush=True)
