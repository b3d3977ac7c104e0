"""Published defences against members that lie, as methods of `p2pml.lab.rounds`, and lies to try them with. All send whole models to all
neighbours in every round.

ClippedGossip (He, Karimireddy, Jaggi 2022, arXiv 2202.01545; its first version calls it SCClip) moves a node towards each neighbour by at most
tau: x_i + sum_j W_ij clip(x_j - x_i, tau_i)."""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence

from ._world import World

Method = Callable[[World], None]
Lie = Callable[[World, Any, Any, Any], Any]  # (world, models of the honest, own model, own model before its steps) -> what it gives


def clipped_gossip(tau: float = 0, bad: float = 0) -> Method:
    """tau 0: adaptive, as the paper has it: each node leaves out the furthest neighbours up to the weight ``bad`` (0: of one neighbour) and takes
    the root of the weighted sum of the squared distances of the others over ``bad``. Else one number for all, as in the first version."""
    def mix(world: World) -> None:
        import numpy
        world.send(world.d)
        x, between = world.x.astype(float), world.weights * (1 - numpy.eye(world.n))
        products = x @ x.T
        squares = numpy.diag(products)
        apart = numpy.sqrt(numpy.maximum(squares[:, None] + squares - 2 * products, 0))
        most = tau if tau else [[_adaptive(weights[weights > 0], norms[weights > 0], bad)] for weights, norms in zip(between, apart)]
        pull = between * numpy.minimum(1, most / numpy.maximum(apart, 1e-300))
        world.x[:] = x + pull @ x - pull.sum(1)[:, None] * x
    return mix


def _adaptive(weights: Any, norms: Any, bad: float) -> float:
    import numpy
    bad = bad or weights.max()
    near = numpy.argsort(norms)
    kept = near[numpy.cumsum(weights[near]) <= weights.sum() - bad + 1e-9]
    radius: float = numpy.sqrt((weights[kept] * norms[kept] ** 2).sum() / bad)
    return radius


def lying(method: Method, nodes: Sequence[int], lie: Lie) -> Method:
    """The method, while these nodes give others something else than their model."""
    def mix(world: World) -> None:
        before = world.state.setdefault("lying", 0 * world.x + world.start)
        honest = world.x[[i for i in range(world.n) if i not in nodes]].astype(float)
        for i in nodes:
            world.x[i] = lie(world, honest, world.x[i].copy(), before[i])
        method(world)
        before[:] = world.x
    return mix


def _noise(world: World, honest: Any, own: Any, before: Any) -> Any:
    return honest.mean(0) + 0.05 * world.random.standard_normal(world.d)


def _sign(times: float) -> Lie:
    def lie(world: World, honest: Any, own: Any, before: Any) -> Any:
        given = before - times * (own - before)
        return given if abs(given).max() < 1e6 else honest.mean(0)  # it has overdone it, and begins again
    return lie


def _alie(world: World, honest: Any, own: Any, before: Any) -> Any:
    return honest.mean(0) - honest.std(0)


def _replay(world: World, honest: Any, own: Any, before: Any) -> Any:
    return world.state.setdefault("replayed", own)


#: As the kinds of the key `attackers` of `p2pml sim`.
LIES: Dict[str, Lie] = {"noise": _noise, "sign": _sign(1), "sign-5": _sign(5), "negated": lambda world, honest, own, before: -honest.mean(0),
                        "alie": _alie, "replay": _replay}
