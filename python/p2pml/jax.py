"""Any JAX program whose parameters are a pytree of arrays, trained together with other nodes:

    together, params = p2pml.jax.attach(p2pml.join("a.example:7400", dir="state"), params, every=30)
    for batch in loader:
        params, state = update(params, state, batch)            # unchanged, compiled or not
        params = together.step(params, rate)

Adam's second moment is shared if the optimiser's state is given (any pytree with one named tuple that has ``nu``, as optax.adam's):

    together, params, state = p2pml.jax.attach(node, params, every=30, state=state)
        params, state = together.step(params, rate, state)

The parameters are copied to the node's flat vector, and back, at a boundary only; between boundaries the correction is one compiled
addition on the parameters' device. The vector holds fp32 masters of bf16 and fp16 parameters."""

from __future__ import annotations

import math
import warnings
from typing import Any, List, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from . import errors
from .node import Node, Round


def attach(node: Node, params: Any, every: int = 30, *, state: Any = None, timeout: Optional[float] = None) -> Tuple[Any, ...]:
    """Joins ``node``'s cluster. Returns an :class:`Attachment` and the cluster's parameters; continue with these. After every ``every``
    calls of ``step`` the node exchanges with a neighbour. ``state``: the optimiser's state. If it is given, its second moment is shared,
    and the third result is the state to continue with. Otherwise each node keeps its own optimiser state. ``timeout``: seconds to wait
    for the cluster."""
    if not isinstance(node, Node):
        raise TypeError(f"the first argument is {type(node).__name__}, expected what p2pml.join returns")
    together = Attachment(node, params, every, state)
    started = together.start(state, timeout)
    return (together, *started) if state is not None else (together, started)


def _is_adam(part: Any) -> bool:
    return hasattr(part, "nu") and hasattr(part, "_replace")


def _add(params: Any, correction: Any, rate: Any) -> Any:
    return jax.tree_util.tree_map(lambda p, c: p + (rate * c).astype(p.dtype), params, correction)


class Attachment:
    """The first result of :func:`attach`. Call ``step`` after every update; ``close`` (or the end of the program) leaves the cluster."""

    def __init__(self, node: Node, params: Any, every: int, state: Any = None):
        self.node, self.closed = node, False
        leaves, tree = jax.tree_util.tree_flatten_with_path(params)
        self._tree: Any = tree
        self._shapes = [(tuple(np.shape(leaf)), jnp.result_type(leaf)) for _, leaf in leaves]
        names = ["".join(str(key) for key in path) or "params" for path, _ in leaves]
        for name, (_, kind) in zip(names, self._shapes):
            if not jnp.issubdtype(kind, jnp.floating):
                raise errors.ConfigurationError(f"parameter '{name}' is {kind}, expected a floating-point type")
        self._names = names
        self._with_state = state is not None
        if self._with_state:
            self._adam(state)
        node.open([(name, shape) for name, (shape, _) in zip(names, self._shapes)], average__local_steps=every,
                  train__optimizer="adamw" if self._with_state else "sgd", train__rate=0.001)
        self._flat, self._flat_correction, self._flat_moment = node.model, node.correction, node.second_moment
        self._ends = np.cumsum([math.prod(shape) for shape, _ in self._shapes])[:-1]
        self._last: List[Any] = [None] * len(names)
        self._round: Optional[Round] = None
        self._steps, self._scale, self._ended = 0, 0.0, False
        self._exchanging = False  # from the beginning of an exchange until the caller has its result
        self._correction: Any = None
        self._add = jax.jit(_add)
        self._to_vector(params)

    def _to_vector(self, params: Any) -> None:
        """If a low-precision parameter has not changed, its fp32 master does not change either."""
        for i, (leaf, view) in enumerate(zip(jax.tree_util.tree_leaves(params), np.split(self._flat, self._ends))):
            now, last = np.asarray(leaf), self._last[i]
            if last is None:
                view[:] = now.astype(np.float32).ravel()
            else:
                moved = (now != last).ravel()
                view[moved] = now.astype(np.float32).ravel()[moved]

    def _tree_of(self, flat: Any, low: bool) -> Any:
        parts = zip(np.split(flat, self._ends), self._shapes)  # copies: jax may use an array in place, and this memory changes
        return jax.tree_util.tree_unflatten(self._tree, [jnp.array(p.reshape(shape), dtype=kind if low else None, copy=True)
                                                         for p, (shape, kind) in parts])

    # -- Adam's second moment

    def _adam(self, state: Any) -> Tuple[List[Any], Any, int]:
        """The parts of the state, and which of them has the second moment."""
        parts, tree = jax.tree_util.tree_flatten(state, is_leaf=_is_adam)
        found = [i for i, part in enumerate(parts) if _is_adam(part) and jax.tree_util.tree_structure(part.nu) == self._tree]
        if len(found) != 1:
            raise errors.ConfigurationError(f"state: found {len(found)} named tuples with a second moment `nu` of the parameters' structure, "
                                            "expected one, as optax.adam and adamw have; without `state` it is not shared")
        shapes = [np.shape(leaf) for leaf in jax.tree_util.tree_leaves(parts[found[0]].nu)]
        if shapes != [tuple(shape) for shape, _ in self._shapes]:
            raise errors.ConfigurationError(f"state: found a second moment `nu` with the shapes {shapes}, expected those of the parameters, "
                                            f"{[tuple(shape) for shape, _ in self._shapes]}")
        return parts, tree, found[0]

    def _moment_to_vector(self, state: Any) -> None:
        parts, _, which = self._adam(state)
        for leaf, view in zip(jax.tree_util.tree_leaves(parts[which].nu), np.split(self._flat_moment, self._ends)):
            view[:] = np.asarray(leaf, dtype=np.float32).ravel()

    def _moment_from_vector(self, state: Any, round: Optional[Round]) -> Any:
        parts, tree, which = self._adam(state)
        mine = parts[which]
        kinds = [jnp.result_type(leaf) for leaf in jax.tree_util.tree_leaves(mine.nu)]
        new = [jnp.array(part.reshape(shape), dtype=kind, copy=True)
               for part, (shape, _), kind in zip(np.split(self._flat_moment, self._ends), self._shapes, kinds)]
        parts[which] = mine._replace(nu=jax.tree_util.tree_unflatten(self._tree, new))
        if round is not None and round.another and hasattr(mine, "count") and int(mine.count) == 0 and self._flat_moment.any():
            parts[which] = parts[which]._replace(count=jnp.full_like(mine.count, round.steps_done))  # a member's moment has no initial bias left
        return jax.tree_util.tree_unflatten(tree, parts)

    # -- rounds

    def _take(self, round: Optional[Round], state: Any) -> Any:
        if round is not None and round.rolled_back:
            warnings.warn("the model held NaN or infinity: these steps are undone, and the model is again that of the last exchange; a "
                          "smaller learning rate may help", RuntimeWarning, stacklevel=3)
        self._round, self._steps, self._scale = round or self._round, 0, 0.0
        if self._flat_correction is not None:
            self._correction = self._tree_of(self._flat_correction, False)
        taken = self._from_vector(state, round)
        self._exchanging = False
        return taken

    def _from_vector(self, state: Any, round: Optional[Round] = None) -> Any:
        params = self._tree_of(self._flat, True)
        for i, (leaf, (_, kind)) in enumerate(zip(jax.tree_util.tree_leaves(params), self._shapes)):
            self._last[i] = None if kind == jnp.float32 else np.array(leaf)
        return (params, self._moment_from_vector(state, round)) if self._with_state else params

    def start(self, state: Any = None, timeout: Optional[float] = None) -> Any:
        if self._with_state:
            self._moment_to_vector(state)
        return self._take(self.node.start(timeout), state)

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

    def step(self, params: Any, rate: float, state: Any = None) -> Any:
        """Call after every update with learning rate ``rate``. Returns the parameters to continue with and, if ``state`` is given, the new state."""
        if (state is not None) != self._with_state:
            raise errors.OrderError("the optimiser's state was given to " + ("attach, and is missing here" if self._with_state else
                                    "step, and not to attach: its second moment has no place in this node"))
        if self.closed or self._ended:
            return (params, state) if self._with_state else params
        self._check(params)
        try:
            if self._exchanging:  # it was interrupted; its result is in the vector
                return self._take(self.node.recover() if self.node.lent else None, state)
            if self._correction is not None:
                params = self._add(params, self._correction, rate)
            self._steps, self._scale = self._steps + 1, self._scale + float(rate)
            if self._steps < max(1, self._round.steps if self._round else 1):
                return (params, state) if self._with_state else params
            self._to_vector(params)
            if self._with_state:
                self._moment_to_vector(state)
            self._exchanging = True
            return self._take(self.node.exchange(self._steps, self._scale), state)
        except errors.Ended as why:
            self._ended = True
            warnings.warn(f"{why}; training continues alone", RuntimeWarning, stacklevel=2)
            return self._from_vector(state)

    def close(self, params: Any = None) -> None:
        """Leaves the cluster with a checkpoint of ``params``; None: with the parameters of the last boundary."""
        if not self.closed:
            if params is not None and not self._ended and not self.node.lent:
                self._check(params)
                self._to_vector(params)
            self.closed = True
            self.node.leave()
            self._flat = self._flat_correction = self._flat_moment = None
            self.node.close()
