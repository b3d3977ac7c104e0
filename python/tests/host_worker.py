"""One of two processes of a host, for the tests: host_worker.py FOLDER. Prints the properties of the one node that both processes should see."""

import os
import signal
import sys
import unittest.mock
import warnings

import torch
import torch.distributed

import p2pml
import p2pml.torchrun

torch.distributed.init_process_group("gloo")
torch.set_num_threads(1)
rank = torch.distributed.get_rank()


def model():
    torch.manual_seed(rank)  # other first weights: the first process's count
    made = torch.nn.Linear(3, 2)
    return made, torch.optim.SGD(made.parameters(), lr=0.01)


def all_equal(value):
    found = [None, None]
    torch.distributed.all_gather_object(found, value)
    return found[0] == found[1]


try:
    p2pml.attach(p2pml.join(dir=f"{sys.argv[1]}/wrong", average__ration=1), *model())
except p2pml.ConfigurationError as error:
    print("ConfigurationError", error)

trained, optimizer = model()
node = p2pml.join(dir=f"{sys.argv[1]}/node", log__level="error")
attachment = p2pml.attach(node, trained, optimizer, every=2)


def steps(count):
    for _ in range(count):
        optimizer.zero_grad()
        trained(torch.ones(4, 3)).pow(2).sum().backward()
        optimizer.step()


steps(3)
state = attachment.state_dict()
if all_equal((state["step"], state["checkpoint"].numpy().tobytes())) and len(state["checkpoint"]) > 0:
    print("state of the same step")
try:
    node.status()
    print("status in rank", rank)
except p2pml.OrderError as error:
    print("no status in rank", rank, error)
try:
    with unittest.mock.patch.object(p2pml.Node, "end", side_effect=KeyboardInterrupt):  # in the first process
        attachment.exchange()
except KeyboardInterrupt:
    steps(1)  # takes back what was lent
    steps(2)
    if not attachment.node.lent and all_equal(trained.weight.tolist()):
        print("interrupted and together again")
own = attachment.node._group
send = p2pml.torchrun.Leader._pass_vectors


def interrupted(leader):
    os.kill(os.getpid(), signal.SIGINT)
    send(leader)


try:
    with unittest.mock.patch.object(p2pml.torchrun.Leader, "_pass_vectors", interrupted):
        attachment.exchange()
    late = rank == 1
except KeyboardInterrupt:
    late = rank == 0
steps(3)
if late and all_equal(trained.weight.tolist()):
    print("interrupted after the broadcast, and together")
with torch.no_grad():
    trained.weight[0, 0] = float("nan")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    steps(2)
    if any("NaN" in str(w.message) for w in told) and bool(torch.isfinite(trained.weight).all()):
        print("taken back")
    if rank == 0:
        node.leave()  # as when the node was told to end
    steps(2)
    if any("continues alone" in str(w.message) for w in told):
        print("continues alone")
attachment.detach()
try:
    torch.distributed.broadcast(torch.ones(1), 0, own)
except (RuntimeError, ValueError):
    print("the group is gone")
print("same", int(all_equal(trained.weight.tolist())), flush=True)
