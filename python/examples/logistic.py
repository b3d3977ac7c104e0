"""Logistic regression in plain numpy, two processes: logistic.py DIR PORT PEER-PORT 0, and the same with 1.

Each process lacks one of the three classes; both learn all of them."""
import sys
import numpy as np
import p2pml

directory, port, peer, lacks = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
node = p2pml.join(f"127.0.0.1:{peer}", dir=directory, listen=f"127.0.0.1:{port}")
node.open([("weight", (10, 3)), ("bias", (3,))], average__local_steps=10)
x, correction = node.model, node.correction
x[:] = 0
round = node.start()
truth = np.random.default_rng(1).normal(size=(10, 3))
random, rate = np.random.default_rng(10 + lacks), 0.5
for _ in range(100):
    for _ in range(round.steps):
        inputs = random.normal(size=(64, 10)).astype(np.float32)
        labels = (inputs @ truth).argmax(1)
        inputs, labels = inputs[labels != lacks], labels[labels != lacks]
        p = np.exp(inputs @ x[:30].reshape(10, 3) + x[30:])
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(labels)), labels] -= 1
        x -= rate * np.concatenate([(inputs.T @ p / len(labels)).ravel(), p.mean(0)]).astype(np.float32)
        x += rate * correction
    round = node.exchange(round.steps, rate * round.steps)
inputs = random.normal(size=(5000, 10))
print("accuracy", ((inputs @ x[:30].reshape(10, 3) + x[30:]).argmax(1) == (inputs @ truth).argmax(1)).mean())
node.close()
