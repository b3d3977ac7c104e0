"""Two hosts of two processes each: torchrun --nproc_per_node 2 ddp_torchrun.py DIR HOST STEPS PORT PORT, on each host.

Inside a host DistributedDataParallel averages gradients with every step; between hosts p2pml exchanges. Each host sees
half of the classes. torch.distributed knows nothing of the other host."""
import sys
import torch
import torch.distributed
import p2pml

folder, host, steps, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
node = p2pml.join(f"127.0.0.1:{ports[1 - host]}", dir=f"{folder}/{host}", listen=f"127.0.0.1:{ports[host]}", average__mode="sync")
together = p2pml.attach(node, model, optimizer, steps=steps)

truth = torch.randn(20, 4, generator=torch.Generator().manual_seed(5))
torch.manual_seed(10 * host + rank)  # each process of the host has batches of its own
while not together.done:  # in the cluster's steps: a host may be killed and started again
    x = torch.randn(64, 20)
    y = (x @ truth).argmax(1)
    mine = y % 2 == host
    torch.nn.functional.cross_entropy(model(x[mine]), y[mine]).backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    x = torch.randn(2000, 20, generator=torch.Generator().manual_seed(7))
    total = sum(p.double().sum().item() for p in model.parameters())
    print("rank", rank, "sum", repr(total), "accuracy", (model(x).argmax(1) == (x @ truth).argmax(1)).float().mean().item(), flush=True)
