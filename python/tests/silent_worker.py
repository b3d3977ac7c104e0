"""One of two processes of a host, for the tests: silent_worker.py FOLDER PATIENCE sleeps|ends. The first one sends nothing."""

import os
import sys
import time

import torch.distributed

import p2pml
import p2pml.torchrun

folder, patience, first = sys.argv[1], float(sys.argv[2]), sys.argv[3]
done = os.path.join(folder, "done")
torch.distributed.init_process_group("gloo")
host = p2pml.torchrun.within(p2pml.join(dir=os.path.join(folder, "node")), patience=patience)
torch.distributed.barrier()
began = time.monotonic()
if isinstance(host, p2pml.torchrun.Follower):
    try:
        host.open([("w", (1,))])
    except RuntimeError as error:
        print("raised", type(error).__name__, error, flush=True)
    print("waited", time.monotonic() - began, flush=True)
    with open(done, "w", encoding="utf-8"):
        pass
    os._exit(0)  # the group of the others is broken
while first == "sleeps" and not os.path.exists(done):
    time.sleep(0.1)
os._exit(0)
