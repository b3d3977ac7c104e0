"""Any JAX program whose parameters are a pytree of arrays, trained together with other nodes:

    together, params = p2pml.jax.attach(p2pml.join("a.example:7400", dir="state"), params)
    for batch in loader:
        params, state = update(params, state, batch)            # unchanged, compiled or not
        params = together.step(params, rate)

Adam's second moment is shared if the optimiser's state is given (any pytree with one named tuple that has ``nu``, as optax.adam's):

    together, params, state = p2pml.jax.attach(node, params, state=state)
        params, state = together.step(params, rate, state)

The parameters are copied to the node's flat vector, and back, at a boundary only; between boundaries the correction is one compiled
addition on the parameters' device. The vector holds fp32 masters of bf16 and fp16 parameters."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any, Callable, List, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _defaults, errors
from ._beside import Reports
from .node import RESTORED, TAKEN, Node, Round


def attach(node: Node, params: Any, every: Optional[int] = None, *, state: Any = None, steps: Optional[int] = None,
           examples: Optional[int] = None, judge: Optional[Callable[[Any], Any]] = None,
           timeout: Optional[float] = None) -> Tuple[Any, ...]:
    """Joins ``node``'s cluster. Returns an :class:`Attachment` and the cluster's parameters; continue with these. After every ``every``
    calls of ``step`` the node exchanges with a neighbour (None: as for PyTorch). ``state``: the optimiser's state. If it is given, its second moment is shared,
    all of it is part of the node's checkpoints, and the third result is the state to continue with. Otherwise each node keeps its own
    optimiser state, and the program restores it. ``steps``: training ends for all at this step of the cluster; loop
    ``while not together.done``. ``examples``: how many this node trains on, where every node has examples of its own: the program multiplies
    its gradients (or its loss) by ``together.weight``, so that every example counts alike. ``judge``: a function of the parameters
    that returns their mean loss on some examples of this node's own, always the same ones, or better the loss of each: a model of others that is
    clearly worse than this node's is refused, and a neighbour that pulls to such a one again and again moves this node no more. None: any model is taken. ``timeout``: seconds to wait for the cluster."""
    if not isinstance(node, Node):
        raise TypeError(f"the first argument is {type(node).__name__}, expected what p2pml.join returns")
    together = Attachment(node, params, every, state, steps, errors.examples(examples), judge)
    started = together.start(state, timeout)
    return (together, *started) if state is not None else (together, started)


def _is_adam(part: Any) -> bool:
    return hasattr(part, "nu") and hasattr(part, "_replace")


def _is_counted(part: Any) -> bool:
    return hasattr(part, "count") and hasattr(part, "_replace")


def _count_from(state: Any, step: int) -> Any:
    """Every count of steps in it (Adam's, a schedule's) is at least ``step``."""
    def moved(part: Any) -> Any:
        return part._replace(count=jnp.maximum(part.count, jnp.asarray(step, part.count.dtype))) if _is_counted(part) else part
    return jax.tree_util.tree_map(moved, state, is_leaf=_is_counted)


def _finite(leaf: Any) -> Any:
    """Zero where it holds NaN or infinity anywhere."""
    if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating) or bool(jnp.isfinite(leaf).all()):
        return leaf
    return jnp.zeros_like(leaf)


def _to_bytes(state: Any) -> bytes:
    leaves = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(state)]
    head = json.dumps([[str(leaf.dtype), leaf.shape] for leaf in leaves]).encode()
    return b"".join([len(head).to_bytes(8, "little"), head, *[leaf.tobytes() for leaf in leaves]])


def _from_bytes(data: bytes, state: Any) -> Any:
    """None: it is the state of another optimiser."""
    leaves, tree = jax.tree_util.tree_flatten(state)
    at = 8 + int.from_bytes(data[:8], "little")
    if json.loads(data[8:at] or b"[]") != [[str(np.asarray(leaf).dtype), list(np.shape(leaf))] for leaf in leaves]:
        return None
    new = []
    for leaf in map(np.asarray, leaves):
        new.append(jnp.array(np.frombuffer(data[at:at + leaf.nbytes], dtype=leaf.dtype).reshape(leaf.shape), copy=True))
        at += leaf.nbytes
    return jax.tree_util.tree_unflatten(tree, new)


def _add(params: Any, correction: Any, rate: Any) -> Any:
    return jax.tree_util.tree_map(lambda p, c: p + (rate * c).astype(p.dtype), params, correction)


class Attachment(Reports):
    """The first result of :func:`attach`. Call ``step`` after every update; ``close`` (or the end of the program) leaves the cluster."""

    def __init__(self, node: Node, params: Any, every: Optional[int], state: Any = None, steps: Optional[int] = None,
                 examples: int = 0, judge: Optional[Callable[[Any], Any]] = None):
        self.node, self.closed, self._total, self._alone = node, False, steps or 0, 0
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
        node.open([(name, shape) for name, (shape, _) in zip(names, self._shapes)], examples=examples,
                  judge=judge and (lambda flat: judge(self._tree_of(flat, True))),
                  **_defaults.settings(node, sum(math.prod(shape) for shape, _ in self._shapes), every, self._with_state, self._total))
        self._flat, self._flat_correction, self._flat_moment, self._flat_held = node.model, node.correction, node.second_moment, node.held
        self._ends = np.cumsum([math.prod(shape) for shape, _ in self._shapes])[:-1]
        self._last: List[Any] = [None] * len(names)
        self._round: Optional[Round] = None
        self._steps, self._scale, self._ended = 0, 0.0, False
        self._losses = []
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
        if round is not None and round.another == TAKEN and hasattr(mine, "mu"):  # where its second moment is tiny, the old first one is huge
            parts[which] = parts[which]._replace(mu=jax.tree_util.tree_map(jnp.zeros_like, mine.mu))
        return jax.tree_util.tree_unflatten(tree, parts)

    def _take_state(self, state: Any, round: Optional[Round]) -> Any:
        """docs/EMBEDDING.md, "What happens to a learner's state"."""
        if round is not None and round.another == RESTORED:
            kept = self.node.came()[1]
            restored = _from_bytes(kept, state) if kept else None
            if restored is None:
                warnings.warn("the checkpoint has no state of this optimiser: its first moments begin again", RuntimeWarning, stacklevel=5)
            state = _count_from(state, round.steps_done) if restored is None else restored
        if round is not None and round.rolled_back:
            state = jax.tree_util.tree_map(_finite, state)
        if round is not None and round.another == TAKEN and (self._flat_moment.any() or round.steps_done > 0):
            state = _count_from(state, round.steps_done)  # a member's moment has no initial bias left, and the schedule is the cluster's
        return self._moment_from_vector(state, round)

    # -- rounds

    def _take(self, round: Optional[Round], state: Any) -> Any:
        if round is not None and round.rolled_back:
            warnings.warn("the model held NaN or infinity: these steps are undone, and the model is again that of the last exchange; a "
                          "smaller learning rate may help", RuntimeWarning, stacklevel=3)
        self._round, self._steps, self._scale, self._losses = round or self._round, 0, 0.0, []
        if self._flat_correction is not None:
            self._correction = self._tree_of(self._flat_correction, False)
        taken = self._from_vector(state, round)
        self._exchanging = False
        return taken

    def _from_vector(self, state: Any, round: Optional[Round] = None) -> Any:
        params = self._tree_of(self._flat, True)
        for i, (leaf, (_, kind)) in enumerate(zip(jax.tree_util.tree_leaves(params), self._shapes)):
            self._last[i] = None if kind == jnp.float32 else np.array(leaf)
        return (params, self._take_state(state, round)) if self._with_state else params

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
            self._alone += self._ended
            return (params, state) if self._with_state else params
        self._check(params)
        rate = errors.rate(rate)
        try:
            if self._exchanging:  # it was interrupted; its result is in the vector
                return self._take(self.node.recover() if self.node.lent else None, state)
            if self._correction is not None:
                params = self._add(params, self._correction, rate)
            self._steps, self._scale = self._steps + 1, self._scale + rate
            if self._steps < max(1, self._round.steps if self._round else 1):
                return (params, state) if self._with_state else params
            self._to_vector(params)
            if self._with_state:
                self._moment_to_vector(state)
                if self._round is not None and self._round.saves:
                    self.node.keep(_to_bytes(state))
            self._exchanging = True
            return self._take(self.node.exchange(self._steps, self._scale, self._mean_loss()), state)
        except errors.Ended as why:
            self._ended = True
            if not self.done:
                warnings.warn(f"{why}; training continues alone", RuntimeWarning, stacklevel=2)
            params = self._tree_of(self._flat, True)
            return (params, jax.tree_util.tree_map(_finite, state)) if self._with_state else params

    def model_state(self, params: Any) -> Any:
        """``params`` as neighbours and checkpoints get them: save and evaluate these. With ``average.hold`` those that ``step`` returns lack a
        part, which is added here."""
        if self.closed or self._ended or self._flat_held is None or self.node.lent:
            return params
        return self._add(params, self._tree_of(self._flat_held, False), 1.0)

    @property
    def cluster_step(self) -> int:
        """The cluster's step, with those of this node since the last exchange. A restarted process does not begin at 0."""
        return (self._round.steps_done if self._round else 0) + self._steps + self._alone

    @property
    def weight(self) -> float:
        """Of this node's gradients until the next call of ``step``: its ``examples`` over the mean of all nodes that tell theirs, else 1."""
        return 1.0 if self.closed or self._ended or self._round is None else self._round.weight

    def _place(self) -> Optional[int]:
        return None if self.closed or self._ended else self.cluster_step

    @property
    def done(self) -> bool:
        """Whether the cluster has taken the ``steps`` that attach was given."""
        return 0 < self._total <= self.cluster_step

    def close(self, params: Any = None, state: Any = None) -> None:
        """Leaves the cluster with a checkpoint of ``params`` and the optimiser's ``state``; None: with the parameters of the last boundary, and
        without its state."""
        if not self.closed:
            if params is not None and not self._ended and not self.node.lent:
                self._check(params)
                self._to_vector(params)
                if self._with_state and state is not None:
                    self._moment_to_vector(state)
                    self.node.keep(_to_bytes(state))
                if self._steps > 0:
                    self.node.begin(self._steps, self._scale)
            self.closed = True
            self.node.leave()
            self._flat = self._flat_correction = self._flat_moment = self._flat_held = None
            self.node.close()
