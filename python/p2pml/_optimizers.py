"""The optimisers of `p2pml.lab.rounds`: `step(node, x, gradient, rate)` changes x in place. Their state stays with its node."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple, Union

from . import errors
from ._settings import call

Step = Callable[[int, Any, Any, float], None]
Optimizer = Union[str, Tuple[str, Dict[str, Any]]]


def sgd(weight_decay: float = 0.0) -> Step:
    def step(node: int, x: Any, gradient: Any, rate: float) -> None:
        x -= rate * (gradient + weight_decay * x if weight_decay else gradient)
    return step


def momentum(momentum: float = 0.9, weight_decay: float = 0.0) -> Step:
    """As torch.optim.SGD with this momentum."""
    velocities: Dict[int, Any] = {}

    def step(node: int, x: Any, gradient: Any, rate: float) -> None:
        gradient = gradient + weight_decay * x if weight_decay else gradient
        velocity = velocities.setdefault(node, 0 * x)
        velocity *= momentum
        velocity += gradient
        x -= rate * velocity
    return step


def adamw(beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, weight_decay: float = 0.01) -> Step:
    """As torch.optim.AdamW."""
    states: Dict[int, Any] = {}

    def step(node: int, x: Any, gradient: Any, rate: float) -> None:
        state = states.setdefault(node, [0, 0 * x, 0 * x])
        state[0] += 1
        steps, first, second = state
        first += (1 - beta1) * (gradient - first)
        second += (1 - beta2) * (gradient * gradient - second)
        x *= 1 - rate * weight_decay
        x -= rate / (1 - beta1 ** steps) * first / ((second / (1 - beta2 ** steps)) ** 0.5 + epsilon)
    return step


_TABLE: Dict[str, Callable[..., Step]] = {"sgd": sgd, "momentum": momentum, "adamw": adamw}


def make(given: Optimizer) -> Step:
    name, settings = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    if not isinstance(name, str) or name not in _TABLE:
        raise errors.ConfigurationError(f"optimizer: found {given!r}, expected one of {', '.join(_TABLE)}, or a pair of one and its settings")
    step: Step = call(f"optimizer {name}", _TABLE[name], settings)
    return step
