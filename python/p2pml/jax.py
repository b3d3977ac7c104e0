"""Any JAX program whose parameters are a pytree of arrays, trained together with other nodes:

    together, params = p2pml.jax.attach(p2pml.join("a.example:7400", dir="state"), params, every=30)
    for batch in loader:
        params, state = update(params, state, batch)            # unchanged, compiled or not
        params = together.step(params, rate)

The parameters are copied to the node's flat vector, and back, at a boundary only; between boundaries the correction is one compiled
addition where they lie. fp32 masters of bf16 and fp16 parameters are in the vector."""

from __future__ import annotations

import math
import warnings
from typing import Any, List, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from . import errors
from .node import Node, Round


def attach(node: Node, params: Any, every: int = 30, *, timeout: Optional[float] = None) -> Tuple["Attachment", Any]:
    """Joins ``node``'s cluster; the second result are the cluster's parameters, to go on with. After each ``every`` calls of ``step`` the node
    exchanges with a neighbour. The state of an optimiser stays each node's own."""
    if not isinstance(node, Node):
        raise TypeError(f"the first argument is {type(node).__name__}, expected what p2pml.join returns")
    together = Attachment(node, params, every)
    return together, together.start(timeout)


def _add(params: Any, correction: Any, rate: Any) -> Any:
    return jax.tree_util.tree_map(lambda p, c: p + (rate * c).astype(p.dtype), params, correction)


class Attachment:
    """What :func:`attach` returns first. ``step`` after every update, ``close`` leaves the cluster (as the end of the program does)."""

    def __init__(self, node: Node, params: Any, every: int):
        self.node, self.closed = node, False
        leaves, self._tree = jax.tree_util.tree_flatten_with_path(params)
        self._shapes = [(tuple(np.shape(leaf)), jnp.result_type(leaf)) for _, leaf in leaves]
        names = ["".join(str(key) for key in path) or "params" for path, _ in leaves]
        for name, (_, kind) in zip(names, self._shapes):
            if not jnp.issubdtype(kind, jnp.floating):
                raise errors.ConfigurationError(f"parameter '{name}' is {kind}, expected a floating-point type")
        self._names = names
        node.open([(name, shape) for name, (shape, _) in zip(names, self._shapes)], average__local_steps=every, train__optimizer="sgd")
        self._flat, self._flat_correction = node.model, node.correction
        self._ends = np.cumsum([math.prod(shape) for shape, _ in self._shapes])[:-1]
        self._last: List[Optional[np.ndarray]] = [None] * len(names)
        self._round: Optional[Round] = None
        self._steps, self._scale, self._ended = 0, 0.0, False
        self._correction: Any = None
        self._add = jax.jit(_add)
        self._to_vector(params)

    def _to_vector(self, params: Any) -> None:
        """A low-precision parameter that did not move leaves its fp32 master as it is."""
        for i, (leaf, view) in enumerate(zip(jax.tree_util.tree_leaves(params), np.split(self._flat, self._ends))):
            now, last = np.asarray(leaf), self._last[i]
            if last is None:
                view[:] = now.astype(np.float32).ravel()
            else:
                moved = (now != last).ravel()
                view[moved] = now.astype(np.float32).ravel()[moved]

    def _tree_of(self, flat: np.ndarray, low: bool) -> Any:
        parts = zip(np.split(flat, self._ends), self._shapes)  # copies: jax may use an array where it lies, and this memory changes
        return jax.tree_util.tree_unflatten(self._tree, [jnp.array(p.reshape(shape), dtype=kind if low else None, copy=True)
                                                         for p, (shape, kind) in parts])

    def _take(self, round: Round) -> Any:
        if round.rolled_back:
            warnings.warn("the model held NaN or infinity: these steps are undone, and it is the one of the last exchange again; a "
                          "smaller learning rate may help", RuntimeWarning, stacklevel=3)
        self._round, self._steps, self._scale = round, 0, 0.0
        if self._flat_correction is not None:
            self._correction = self._tree_of(self._flat_correction, False)
        return self._from_vector()

    def _from_vector(self) -> Any:
        params = self._tree_of(self._flat, True)
        for i, (leaf, (_, kind)) in enumerate(zip(jax.tree_util.tree_leaves(params), self._shapes)):
            self._last[i] = None if kind == jnp.float32 else np.array(leaf)
        return params

    def start(self, timeout: Optional[float] = None) -> Any:
        return self._take(self.node.start(timeout))

    def _check(self, params: Any) -> None:
        leaves, tree = jax.tree_util.tree_flatten(params)
        if tree != self._tree:
            raise errors.MismatchError(f"the parameters are {tree} now, they were {self._tree} when they were attached; attach the changed "
                                       "model to a node of its own")
        for name, leaf, (shape, kind) in zip(self._names, leaves, self._shapes):
            if isinstance(leaf, jax.core.Tracer):
                raise errors.OrderError("step was called inside a function that jax compiles; call it on its result, outside")
            if tuple(np.shape(leaf)) != shape or jnp.result_type(leaf) != kind:
                raise errors.MismatchError(f"parameter '{name}' is {jnp.result_type(leaf)} {tuple(np.shape(leaf))} now, it was {kind} {shape} "
                                           "when it was attached; attach the changed model to a node of its own")

    def step(self, params: Any, rate: float) -> Any:
        """After every update with learning rate ``rate``: the parameters to go on with."""
        if self.closed or self._ended:
            return params
        self._check(params)
        if self.node.lent:  # the exchange was interrupted
            round = self.node.recover()
            if round is not None:
                return self._take(round)
        if self._correction is not None:
            params = self._add(params, self._correction, rate)
        self._steps, self._scale = self._steps + 1, self._scale + float(rate)
        if self._steps < max(1, self._round.steps if self._round else 1):
            return params
        self._to_vector(params)
        try:
            return self._take(self.node.exchange(self._steps, self._scale))
        except errors.Ended as why:
            self._ended = True
            warnings.warn(f"{why}; training goes on alone", RuntimeWarning, stacklevel=2)
            return self._from_vector()

    def close(self, params: Any = None) -> None:
        """Leaves the cluster with a checkpoint of ``params``; None: of the parameters at the last boundary."""
        if not self.closed:
            if params is not None and not self._ended and not self.node.lent:
                self._check(params)
                self._to_vector(params)
            self.closed = True
            self.node.leave()
            self._flat = self._flat_correction = None
            self.node.close()
