"""Made-up directories of runs and sweeps: their contents are chosen, not measured. Formats: lab/record/README.md."""

import json
import math
import os
import random

NULLS = ["accuracy", "loss", "worst", "mean", "best", "consensus", "train_loss"]
NODES = 16


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def rounds(ratio=1 / 32, pace=1.0, seed=0, count=101, every=10, bytes_a_round=None, virtual=0.04):
    """Training that slows down: better with every round, noisy, and with nodes that converge."""
    chance = random.Random(seed)
    points = []
    for i in range(count):
        done = i * every
        error = 0.05 + 0.85 * math.exp(-done * pace / 130) + chance.uniform(-0.004, 0.004) * math.exp(-i / 40)
        apart = 0.4 * math.exp(-done * pace / 260) / (1 + 8 * ratio) + 0.002 / (32 * ratio) if done else 0
        points.append({"round": done, "step": 2 * done, "time": done * virtual, "nodes": NODES,
                       "bytes": int(done * NODES * (bytes_a_round or 203530 * ratio * 2.1)),
                       "accuracy": 1 - error, "loss": 2.3 * error ** 0.9, "worst": 1 - error - 0.25 * apart,
                       "mean": 1 - error - 0.1 * apart, "best": 1 - error - 0.02 * apart, "consensus": apart,
                       "train_loss": 2.2 * error})
    return points


def first(points, key, accuracy):
    found = next((p for p in points if p[key] is not None and p[key] >= accuracy), None)
    return found and {k: found[k] for k in ("round", "step", "time", "bytes")}


def ring(gone=(), nodes=NODES):
    return {"kind": "ring", "nodes": [f"node-{i:02}" for i in range(nodes)],
            "edges": [[i, (i + 1) % nodes] for i in range(nodes)], "gone": list(gone)}


def hypercube(nodes=NODES):
    edges = [[i, i ^ bit] for i in range(nodes) for bit in (1, 2, 4, 8) if i < i ^ bit < nodes]
    return {**ring(nodes=nodes), "kind": "butterfly", "edges": edges}


def event(kind, node, at, detected, rewired, **more):
    times = lambda t: {"seen": 15, "of": 15, "median": t, "last": t and 1.3 * t}
    return {"event": kind, "node": node, "groups": None, "at": at, "for": None, "happened": True, "instead": None,
            "time": 1.7e9 + at, "end_time": None, "detected": times(detected), "rewired": times(rewired),
            "recovered": times(None), "accuracy": {"before": 0.91, "lowest": 0.905, "cost": 0.005, "end": 0.95},
            "witnesses": [{"node": "node-00"}], **more}


def summary(points, graph, events=(), seed=0, method="edge-ref", name="ring against butterfly", **settings):
    last = points[-1]
    targets = [{"accuracy": a, "averaged": first(points, "accuracy", a), "worst": first(points, "worst", a)} for a in (0.9, 0.93)]
    return {"format": 1, "experiment": name, "kind": "sim", "engine": "nodes", "method": method, "status": "complete",
            "file": "configs/graphs.yaml", "version": "0.1.0", "nodes": NODES, "graph": graph, "targets": targets,
            "settings": {"seed": seed, "topology": graph["kind"], "model_seed": 1 + seed,
                         "data": {"kind": "mnist", "partition": "dirichlet", "alpha": 0.1, "shards": NODES, "seed": 1 + seed},
                         "train": {"optimizer": "sgd", "rate": 0.1, "steps": last["step"], "batch": 32},
                         "average": {"mode": "sync", "local_steps": 2, "ratio": 0.03125, "values": "int8", **settings}},
            "model": "mlp 784-256-10", "parameters": 203530, "train_examples": 60000, "test_examples": 10000,
            "averaged": {"accuracy": last["accuracy"], "loss": last["loss"], "nodes": NODES},
            "node": {"worst": {"accuracy": last["worst"]}, "mean": {"accuracy": last["mean"]}, "best": {"accuracy": last["best"]}},
            "consensus": last["consensus"], "central": {"accuracy": 0.9585, "loss": 0.14},
            "bytes": {"sent": last["bytes"], "dense_over_sent": 66.5}, "per_node": [{"name": "node-00"}],
            "seconds": {"cluster": 3.2, "virtual": last["time"], "total": 3.4}, "events": list(events), "false_deaths": 0}


def write_run(directory, points, made):
    write(os.path.join(directory, "rounds.jsonl"), "".join(json.dumps(p) + "\n" for p in points))
    write(os.path.join(directory, "summary.json"), json.dumps(made, indent=2) + "\n")


def row(label, made, settings):
    flat = [{"accuracy": t["accuracy"], **{f"{who}_{what}": t[who] and t[who][what] for who in ("averaged", "worst")
                                          for what in ("bytes", "time", "step")}} for t in made["targets"]]
    medians = [e["detected"]["median"] for e in made["events"]]
    return {"run": label, **{k: made[k] for k in ("kind", "engine", "method", "status", "nodes", "consensus", "false_deaths")},
            "seed": made["settings"]["seed"], "settings": settings, **made["averaged"], "nodes": NODES,
            **{k: made["node"][k]["accuracy"] for k in ("worst", "mean", "best")}, "bytes": made["bytes"]["sent"],
            "dense_over_sent": 66.5, "seconds": made["seconds"]["virtual"], "wall_seconds": 3.4, "round": 1000, "step": 2000, "own_steps": 1990, "own_steps_least": 1920,
            "own_examples": 63680, "exchanges": 1004,
            "detected": medians[0] if medians else None, "rewired": None, "targets": flat}


def sweep(directory, seeds=3):
    """Three graphs and three ratios, each with its seeds; one run failed, one setting never reaches 93%."""
    rows = []
    for topology, pace in (("ring", 0.8), ("butterfly", 1.25)):
        for text, ratio in (("1/8", 1 / 8), ("1/32", 1 / 32), ("1/100", 1 / 100)):
            for seed in range(seeds):
                label = f"{topology}-{text.replace('/', 'of')}-{seed}"
                slow = 0.25 if topology == "ring" and ratio < 0.02 else 1
                points = rounds(ratio, pace * slow * (1 + 0.08 * seed), seed=seed + 10)
                made = summary(points, ring() if topology == "ring" else hypercube(), seed=seed, ratio=ratio)
                settings = {"topology.kind": topology, "average.ratio": text}
                if label == "ring-1of8-2":
                    made["status"] = "failed"
                write_run(os.path.join(directory, "runs", label), points, made)
                rows.append(row(label, made, settings))
    write(os.path.join(directory, "results.jsonl"), "".join(json.dumps(r) + "\n" for r in rows))


def one_run(directory):
    points = rounds()
    write_run(directory, points, summary(points, ring(), name="one ring"))


def quantity(directory):
    """A regression: its accuracy is R2."""
    points = rounds()
    made = {**summary(points, ring(), name="prices"), "measure": "R2", "model": "mlp 6-16-1, mse"}
    made["averaged"]["rmse"] = 15792.8
    write_run(directory, points, made)


def failures(directory):
    points = rounds()
    events = [event("kill", f"node-{i:02}", 10.0 + i, 0.4 + 0.07 * i, 0.9 + 0.05 * i) for i in (3, 7, 8, 12)]
    gained = {"before": 0.91, "lowest": 0.93, "cost": -0.02, "end": 0.95}
    events.append(event("stop", "node-05", 24.0, 7.2, None, **{"for": 4.0, "accuracy": gained}))
    write_run(directory, points, summary(points, ring(gone=(3, 7, 8, 12)), events, name="a quarter killed"))


def real(directory):
    """Real processes: the averaged model is known only at the end, and one sample has no measurement."""
    points = rounds()
    for i, p in enumerate(points):
        if i not in (0, len(points) - 1):
            p.update(accuracy=None, loss=None, consensus=None)
    points[50].update(worst=None, mean=None)
    write_run(directory, points, {**summary(points, ring(), name="real"), "kind": "run", "engine": None})


def nulls(directory):
    """The result of a run that measured nothing."""
    points = [{**p, **dict.fromkeys(NULLS), "time": None} for p in rounds(count=3)]
    made = {"format": 1, "experiment": "</script><img src=x onerror=alert(1)>", "status": "failed", "events": None,
            "averaged": {"accuracy": None, "loss": None}, "node": None, "consensus": None, "targets": [], "graph": None,
            "bytes": {"sent": None}, "seconds": {"total": None}, "central": None, "settings": {"seed": None}}
    write_run(directory, points, made)


def broad(directory):
    """More settings than colours."""
    rows = []
    for i in range(40):
        points = rounds(1 / 32, 0.4 + 0.04 * i, seed=i, count=41, every=25)
        made = summary(points, ring(), local_steps=i + 1)
        write_run(os.path.join(directory, "runs", f"r{i}"), points, made)
        rows.append(row(f"r{i}", made, {"average.local_steps": str(i + 1)}))
    write(os.path.join(directory, "results.jsonl"), "".join(json.dumps(r) + "\n" for r in rows))
