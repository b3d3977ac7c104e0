"""The figures of docs/METHOD.md: the exchange on quadratics without noise, in a few lines of numpy that share nothing with the product.

    python3 python/tests/bench_method.py [consensus] [gain] [rate] [hold] [noise]"""

import sys

import numpy as np

D = 400


def top(v, k, turn):
    return np.argpartition(-abs(v), k - 1)[:k]


def in_turn(v, k, turn):
    return (turn * k + np.arange(k)) % v.size


def butterfly(n):
    def partners(round):
        return np.arange(n) ^ (1 << round % (n.bit_length() - 1))
    return partners


class Cluster:
    """Nodes with f_i = sum of bends_i (x - goals_i)^2 / 2, and the exchange between the pairs of a butterfly. gain is d/k beta."""

    def __init__(self, goals, bends, k, gain=0.0, hold=0.0, rate=0.01, steps=1, select=top, limit=np.inf):
        self.goals, self.bends, self.select = goals, bends, select
        self.n, self.d = goals.shape
        self.k, self.beta, self.hold, self.rate, self.steps = k, min(gain * k / self.d, limit), hold, rate, steps
        self.x, self.held, self.c = (np.zeros_like(goals) for _ in range(3))
        self.r, self.round = {}, 0
        self.partners = butterfly(self.n)

    def optimum(self):
        return (self.bends * self.goals).sum(0) / self.bends.sum(0)

    def step(self):
        y = self.x - self.held
        for _ in range(self.steps):
            y = y - self.rate * (self.bends * (y - self.goals) - self.c)
        self.x = y + self.held
        self.exchange()

    def exchange(self):
        meets = self.partners(self.round)
        for i in range(self.n):
            if i < meets[i]:
                self.meet(i, meets[i])
        self.round += 1

    def meet(self, i, j):
        r = self.r.setdefault((i, j), np.zeros(self.d))
        q_i, q_j = (self.packet(self.x[end] - r) for end in (i, j))
        update = (q_j - q_i) / 2
        self.x[i] += update
        self.x[j] -= update
        r += (q_i + q_j) / 2
        self.c[i] += self.beta / (self.rate * self.steps) * update
        self.c[j] -= self.beta / (self.rate * self.steps) * update
        for end in (i, j):
            self.held[end] = self.hold * (self.x[end] - r)

    def packet(self, a):
        chosen = self.select(a, self.k, self.round)
        q = np.zeros_like(a)
        q[chosen] = a[chosen]
        return q

    def distance(self):
        return float(np.linalg.norm(self.x - self.optimum(), axis=1).max() / np.linalg.norm(self.optimum()))


def problem(n, seed=0, apart=1.0):
    random = np.random.default_rng(seed)
    common = random.normal(size=D)
    return common + apart * random.normal(size=(n, D)), random.uniform(0.5, 1.5, size=(n, D))


def rounds_to(cluster, near, most):
    """Until all nodes are that near to the optimum, or None; a cluster that diverges ends at once."""
    for _ in range(most):
        cluster.step()
        if cluster.distance() < near or not cluster.distance() < 1e6:
            break
    return cluster.round if cluster.distance() < near else None


def consensus():
    print("rounds to 1e-4 of the energy, 16 nodes on a butterfly, no training, top-k: k/d, rounds, rounds k/d")
    for part in (1 / 4, 1 / 10, 1 / 20, 1 / 100):
        cluster = Cluster(*problem(16), k=round(part * D), rate=0.0)
        cluster.x = np.random.default_rng(1).normal(size=cluster.x.shape)
        cluster.rate, first = 1e-9, cluster.x.var(0).sum()
        while cluster.x.var(0).sum() > 1e-4 * first:
            cluster.exchange()
        print(f"{part:8.3f} {cluster.round:6} {cluster.round * part:6.1f}", flush=True)


def gain():
    print("rounds until all nodes are within 1e-3 of the optimum, over the gain G = beta d/k, k/d = 1/20, 4 steps of 0.01; '-': not in 6,000")
    print("          ", *(f"{g:>6g}" for g in GAINS))
    for n in (2, 4, 8, 16):
        row = [rounds_to(Cluster(*problem(n), k=D // 20, gain=g, rate=0.01, steps=4), 1e-3, 6000) for g in GAINS]
        print(f"{n:3} nodes ", *(f"{value or '-':>6}" for value in row), flush=True)


GAINS = (0, 0.5, 1, 2, 3, 4, 6, 8)


def rate():
    print("rounds to a distance of 1e-1, 1e-2, 1e-3, 1e-4, 8 nodes, gain 2, 4 steps of 0.01")
    for part in (1 / 5, 1 / 10, 1 / 20, 1 / 40):
        row = [rounds_to(Cluster(*problem(8), k=round(part * D), gain=2, rate=0.01, steps=4), 10.0 ** -e, 20000) for e in (1, 2, 3, 4)]
        print(f"k/d {part:6.3f} ", *(f"{value or '-':>6}" for value in row), flush=True)


def factor(hold, delay, step):
    """By how much the distance of r from the optimum changes from one exchange of an element to the next one, `delay` rounds later."""
    return 1 - (1 - (1 - step * (1 - hold)) ** delay) / (1 - hold)


def hold():
    print("factor of the distance of r between two exchanges of an element, two equal nodes, elements in turn: d/k, by the formula and measured")
    for delay in (4, 20, 100):
        for part in (0.0, 0.25, 0.5, 0.6, 0.75):
            print(f"d/k {delay:4} hold {part:4.2f} {factor(part, delay, 0.04):8.3f} {measured(part, delay, 0.04):8.3f}", flush=True)


def measured(part, delay, step):
    goals = np.ones((2, D))
    cluster = Cluster(goals, np.ones_like(goals), k=D // delay, hold=part, rate=step, select=in_turn)
    away = []
    for _ in range(2 * delay + 1):  # element 0 travels in rounds 0, delay, 2 delay
        cluster.step()
        away.append(1 - cluster.r[0, 1][0])
    return away[2 * delay] / away[delay]


class Noise(Cluster):
    """Every gradient is noise of variance 1, so there is nothing that a correction could learn."""

    def __init__(self, n, gain, hold=0.0):
        super().__init__(np.zeros((n, D)), np.zeros((n, D)), k=D // 20, gain=gain, hold=hold)
        self.random = np.random.default_rng(0)

    def step(self):
        self.x += self.rate * (self.c - self.random.normal(size=self.x.shape))
        self.exchange()


def noise_of(n, gain):
    """RMS of the corrections over rounds in which every edge sends each element six times, after as many others."""
    cluster, rounds, seen = Noise(n, gain), 6 * 20 * (n.bit_length() - 1), []
    for _ in range(2 * rounds):
        cluster.step()
        seen.append(float((cluster.c**2).mean()))
    return np.mean(seen[rounds:]) ** 0.5


def noise():
    gains = (0.25, 0.5, 1, 2, 4)
    print("RMS of the correction over that of the noise of one round, where all gradients are noise, over the gain, k/d = 1/20")
    print("          ", *(f"{g:>6g}" for g in gains))
    for n in (2, 4, 8, 16):
        print(f"{n:3} nodes ", *(f"{noise_of(n, g):6.2f}" for g in gains), flush=True)


if __name__ == "__main__":
    table = {"consensus": consensus, "gain": gain, "rate": rate, "hold": hold, "noise": noise}
    for name in sys.argv[1:] or table:
        table[name]()
