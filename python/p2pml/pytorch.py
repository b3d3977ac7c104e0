"""Any PyTorch model with any ``torch.optim`` optimiser, trained together with other nodes."""

from __future__ import annotations

import contextlib
import ctypes
import math
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from . import _defaults, _judge, errors, torchrun
from ._adam import SecondMoments, is_adam
from ._beside import Reports
from ._flat import Named, Parameters, order
from ._schedule import check_scheduler
from ._state import Averaged, State, compare_rates
from .node import RESTORED, TAKEN, Node, Round

try:
    from torch.optim.optimizer import register_optimizer_step_post_hook as _register
except ImportError:  # torch 1
    _register = None  # type: ignore[assignment, unused-ignore]

_attached: "weakref.WeakKeyDictionary[torch.nn.Module, List[Attachment]]" = weakref.WeakKeyDictionary()
_HOOKS = (2, 3)  # since this version of torch a compiled model leaves the hooks of optimisers alone


def attach(node: Node, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: Optional[int] = None, *,
           scheduler: Any = None, steps: Optional[int] = None, share_second_moment: bool = True, buffers: str = "own",
           state: Optional[Dict[str, Any]] = None, examples: Optional[int] = None,
           judge: Optional[Callable[[torch.nn.Module], Any]] = None, timeout: Optional[float] = None, group: Any = None,
           patience: float = torchrun.PATIENCE) -> "Attachment":
    """Joins ``node``'s cluster with ``model``; on return the parameters are the cluster's. From then on every ``optimizer.step()``
    is a local step, and after each ``every`` of them the node exchanges with a neighbour. None: after each step, of a model with over
    2,097,152 parameters after more (docs/EMBEDDING.md, "Defaults").

    ``scheduler``: the program's learning rate scheduler, which the program steps as before; a process that is restarted or joins late
    finds it where the cluster is. ``steps``: training ends for all at this step of the cluster; loop ``while not attachment.done``.
    The nodes share the parameters that ``optimizer`` updates; if it trains only adapters, they share only these. ``buffers``: "own": buffers
    (such as the running statistics of batch norm) stay each node's own, and travel with the model to a late joiner; "average": those in
    floating point are averaged with the parameters, the same on all nodes. ``state``: a ``state_dict`` of an attachment of this model;
    training continues from it, with its edges, and ignores the checkpoints in the node's directory. ``examples``: how many this node trains on (all
    processes of a host together), where every node has examples of its own: before each step its gradients are multiplied by that number
    over the mean of all nodes, so that every example counts alike; None: every node counts alike. ``judge``: a function of the model that
    returns its mean loss on some examples of this node's own, always the same ones, or better (``reduction="none"``) the loss of each: a model of
    others that is clearly worse than this node's is refused, and a neighbour that pulls to such a one again and again moves this node no more
    (``average.robust``). It is called within attach, an exchange or close, without gradients, in
    evaluation mode (batch norm with the statistics of the batch), while the parameters are those in question. None: any model is taken. ``timeout``: seconds to wait for the
    cluster; None: as long as ``node.start_timeout`` and the others take. ``group`` and ``patience``: for torchrun, see
    :func:`p2pml.torchrun.within`. If the node cannot join, or Ctrl-C interrupts the call, the node is closed."""
    if not isinstance(node, Node):
        raise TypeError(f"the first argument is {type(node).__name__}, expected what p2pml.join returns")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"the model is {type(model).__name__}, expected a torch.nn.Module")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"the optimiser is {type(optimizer).__name__}, expected one of torch.optim's kind")
    if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
        model = model.module  # the names of a model are the same on hosts with one process
    if buffers not in ("own", "average"):
        raise errors.ConfigurationError(f"buffers: found {buffers!r}, expected 'own' or 'average'")
    count = errors.examples(examples)
    if judge is not None and not callable(judge):
        raise errors.ConfigurationError(f"judge: found {judge!r}, expected a function of the model that returns its loss")
    every = None if every is None else errors.whole(every, "every")
    if scheduler is not None:
        check_scheduler(scheduler, optimizer)
    named = order(model, optimizer)
    _check_free(named)
    host = torchrun.within(node, group, patience)
    attachment = Attachment(host, model, optimizer, named, scheduler, Averaged(model) if buffers == "average" else None)
    try:
        if state is not None:
            _restore(host, state, attachment.tensors)
        attachment.start(every, steps, share_second_moment, count, judge, timeout)
    except TimeoutError:
        attachment.abandon()
        raise TimeoutError(f"the other nodes were not ready within {timeout} s; the node is closed: join again to wait longer") from None
    except BaseException:
        attachment.abandon()
        raise
    _attached[model] = [one for one in _attached.get(model, []) if one.active] + [attachment]
    _watch()
    return attachment


def _all_attached() -> "Iterator[Attachment]":
    return (one for some in list(_attached.values()) for one in list(some) if one.active)


def _check_free(named: Named) -> None:
    for other in _all_attached():
        taken = next((name for name, p in named if id(p) in other.known), None)
        if taken is not None:
            raise errors.OrderError(f"parameter '{taken}' of this model is attached to a node already; close that attachment first")


def _restore(node: Any, state: Dict[str, Any], mine: List[Tuple[str, Tuple[int, ...]]]) -> None:
    if not isinstance(state, dict) or not {"step", "tensors", "checkpoint"} <= set(state):
        raise errors.ConfigurationError("state: expected what state_dict() of an attachment returned; a model's own state_dict is loaded with "
                                        "model.load_state_dict before attach")
    theirs = [(name, tuple(shape)) for name, shape in state["tensors"]]
    if theirs != mine:
        other = next((f"'{a[0]}' {a[1]} and '{b[0]}' {b[1]}" for a, b in zip(theirs, mine) if a != b),
                     f"{len(theirs)} and {len(mine)} tensors")
        raise errors.MismatchError(f"the state is of another model: {other}")
    node.restore(state["step"], state["checkpoint"].numpy().tobytes())


_watching: Any = None


def _watch() -> None:
    """From the first attachment on, watches for steps of optimisers that are not attached."""
    global _watching

    def look(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for one in _all_attached():
            one.notice(optimizer)
    if _watching is None and _register is not None:
        _watching = _register(look)


class Attachment(Reports):
    """The result of :func:`attach`. ``state_dict()`` is its state for the program's own checkpoints; ``close()`` leaves the cluster."""

    def __init__(self, node: Any, model: torch.nn.Module, optimizer: torch.optim.Optimizer, named: Named, scheduler: Any = None,
                 averaged: Optional[Averaged] = None):
        self.node, self.optimizer = node, optimizer
        self._averaged = averaged
        self.tensors = [(name, tuple(p.shape)) for name, p in named] + (averaged.tensors if averaged is not None else [])
        self.closed = self._ended = False
        self._model = weakref.ref(model)  # weak: an attachment lives as long as its model
        self._named = named
        self.known = {id(p) for _, p in named}
        self._exchanging = False  # until the result of the exchange is in the parameters
        self._steps = 0            # since the last exchange
        self._scale = 0.0          # sum of their learning rates
        self._strange = 0          # steps of other optimisers since this one's last step
        self._round: Optional[Round] = None
        self._parameters: Optional[Parameters] = None
        self._moments: Optional[SecondMoments] = None
        self._undo: List[Callable[[], Any]] = []  # each removes one hook from the optimiser
        self._opens = False
        self._scheduler, self._state = scheduler, None  # type: Any, Optional[State]
        self._saves = False        # the program asked for a checkpoint
        self._within = False       # a step of the optimiser
        self._total = 0            # steps of the cluster; 0: no end
        self._over = False         # the cluster's training has ended
        self._alone = 0            # steps after the node's end
        self._losses = []

    def start(self, every: Optional[int], steps: Optional[int], share_second_moment: bool, examples: int, judge: Optional[Callable[[Any], Any]],
              timeout: Optional[float]) -> None:
        shares = share_second_moment and is_adam(self.optimizer)
        self.node._check_open(False)
        self._opens = True
        self._total = errors.whole(steps or 0, "steps")
        parameters = sum(math.prod(shape) for _, shape in self.tensors)
        self.node.open(self.tensors, examples=examples, judge=judge and self._judge(judge, parameters), **_defaults.settings(self.node, parameters, every, shares, self._total))
        self._parameters = Parameters(self._named, self.optimizer, self.node)
        if self._averaged is not None:
            self._averaged.to_vector(self.node)
        model = self._model()
        assert model is not None
        self._state = State(model, self.optimizer, self._named, self._scheduler, "exp_avg_sq" if shares else None)
        if shares:
            self._moments = SecondMoments(self._parameters, self.optimizer, self.node)
            self._moments.to_vector()  # the program may have loaded them
        self._hook()
        self._take(self.node.start(timeout))
        self.node.before_leave(weakref.WeakMethod(self._part))

    def _judge(self, judge: Callable[[Any], Any], parameters: int) -> _judge.Judge:
        me = weakref.ref(self)

        def measure(address: int) -> Any:
            attachment = me()
            model = attachment and attachment._model()
            if attachment is None or model is None or attachment._parameters is None:
                return []
            vector = torch.frombuffer((ctypes.c_float * parameters).from_address(address), dtype=torch.float32)
            with attachment._parameters.replaced(vector), _judge.evaluated(model):
                return judge(model)
        return _judge.Judge(measure)

    # -- the optimiser's steps

    def _hook(self) -> None:
        me = weakref.ref(self)

        def call(method: Callable[["Attachment"], None]) -> Callable[..., None]:
            def hook(*_: Any) -> None:
                attachment = me()
                if attachment is not None and attachment.active:
                    method(attachment)
                elif attachment is not None and not attachment.closed and method is Attachment._after_step:
                    attachment._alone += 1
            return hook

        def before(_: Any, arguments: Any, options: Any) -> Any:
            attachment = me()
            if attachment is None or not attachment.active:
                return None
            attachment._before_step()
            return attachment._weigh(arguments, options)
        after = call(Attachment._after_step)
        self.optimizer.__dict__["_p2pml"] = self  # lives as long as the optimiser
        if torch.__version__ >= _HOOKS:  # type: ignore[operator, unused-ignore]
            self._undo = [self.optimizer.register_step_pre_hook(before).remove, self.optimizer.register_step_post_hook(after).remove]
        else:
            self._wrap(before, after)

    def _wrap(self, before: Any, after: Any) -> None:
        original = self.optimizer.step

        def step(*arguments: Any, **options: Any) -> Any:
            arguments, options = before(self.optimizer, arguments, options) or (arguments, options)
            result = original(*arguments, **options)
            after()
            return result
        for name in ("_with_counter", "__self__", "__func__"):
            if hasattr(original, name):
                try:
                    setattr(step, name, getattr(original, name))
                except AttributeError:
                    pass
        setattr(self.optimizer, "step", step)
        self._undo = [lambda: setattr(self.optimizer, "step", original)]

    def _unhook(self) -> None:
        for undo in self._undo:
            undo()
        self._undo = []
        self.optimizer.__dict__.pop("_p2pml", None)

    def _before_step(self) -> None:
        """After Ctrl-C within an exchange the node may still be reading the vectors: no step may write to them before that exchange ends."""
        if self._state is not None and self._state.schedule is not None:
            self._state.schedule.before_step()
        try:
            self._take_interrupted()
        except errors.Ended as why:
            self._end(str(why))

    def _weigh(self, arguments: Tuple[Any, ...], options: Dict[str, Any]) -> Any:
        """Multiplies the gradients by this node's weight. Those that a step's closure computes are multiplied after it: None, or the arguments
        with such a closure."""
        weight = self._round.weight if self._round else 1.0

        def multiply() -> None:
            with torch.no_grad():
                for p in self._flat.params:
                    if p.grad is not None:
                        p.grad.mul_(weight)

        def weighed(closure: Callable[[], Any]) -> Callable[[], Any]:
            def call() -> Any:
                loss = closure()
                multiply()
                return loss
            return call
        if weight == 1.0:
            return None
        if callable(options.get("closure")) or any(callable(a) for a in arguments):
            return (tuple(weighed(a) if callable(a) else a for a in arguments),
                    {key: weighed(a) if callable(a) else a for key, a in options.items()})
        multiply()
        return None

    def _after_step(self) -> None:
        self._strange = 0
        self._within = True
        try:
            rate = self._flat.rate()
            self._flat.correct(rate)
            self._steps += 1
            self._scale += rate
            if self._steps >= max(1, self._round.steps if self._round else 1):
                self.exchange()
        except errors.Ended as why:
            self._end(str(why))
        finally:
            self._within = False

    def notice(self, other: torch.optim.Optimizer) -> None:
        """``other`` has taken a step. An optimiser that wraps this one, or that this one wraps, takes one step for each step of
        this one. If ``other`` takes a second step in between, it trains the model by itself, and no other node would hear of its steps."""
        if other.state is self.optimizer.state or not self._is_trained_by(other):  # itself, or a part of it
            return
        self._strange += 1
        if self._strange > 1:
            raise errors.OrderError(f"another optimiser ({type(other).__name__}) trains the model that is attached with a "
                                    f"{type(self.optimizer).__name__}: its steps would not be shared; close the attachment, and attach "
                                    "the model with that optimiser to a node that joins anew")

    def _is_trained_by(self, other: torch.optim.Optimizer) -> bool:
        theirs = {id(p) for group in other.param_groups for p in group["params"]}
        if not theirs.isdisjoint(self.known):
            return True
        model = self._model()
        now = {id(p) for p in model.parameters()} if model is not None else set()
        return not theirs.isdisjoint(now) and not self.known <= now  # the model has new parameters in place of attached ones

    # -- rounds

    @property
    def _flat(self) -> Parameters:
        assert self._parameters is not None
        return self._parameters

    def _take(self, round: Optional[Round]) -> None:
        """``round`` None: an interruption has lost it; its result is in the vector."""
        expected = self.step
        self._round, self._steps, self._scale, self._losses = round or self._round, 0, 0.0, []
        if round is not None and round.rolled_back:
            warnings.warn("the model held NaN or infinity: these steps are undone, and the model is again that of the last exchange; a "
                          "smaller learning rate may help", RuntimeWarning, stacklevel=2)
        another = TAKEN if round is None else round.another
        self._from_vector(bool(another) or (round is not None and round.rolled_back))
        if round is not None:
            self._take_state(round, expected)
        if self._moments is not None:
            self._moments.from_vector(another, self._round.steps_done if self._round else 0)
        self._exchanging = False

    def _take_state(self, round: Round, expected: int) -> None:
        """What is besides the vectors: docs/EMBEDDING.md, "What happens to a learner's state"."""
        state = self._state
        assert state is not None
        if round.rolled_back:
            state.undo()
        if round.another == RESTORED:
            kept = self.node.came()[1]
            if not state.restore(kept, round.steps_done, self._moments.views() if self._moments else None) and not self.optimizer.state:
                warnings.warn("the checkpoint has no state of the optimiser: its moments begin again", RuntimeWarning, stacklevel=5)
        elif round.another == TAKEN:
            other = state.take(self.node.came()[0], round.steps_done, self._within)
            words = compare_rates(self._flat.rate(), other)
            if words:
                warnings.warn(words, RuntimeWarning, stacklevel=5)
        elif state.schedule is not None:
            state.schedule.skip(round.steps_done - expected)

    def _give_state(self) -> None:
        """Before an exchange, or the end."""
        assert self._state is not None and self._round is not None
        rate = self._flat.rate()
        self._state.remember()
        with contextlib.suppress(errors.Ended):  # the exchange that follows says so, in all processes of a host
            self.node.travel(self._state.travels(self.step, rate, self.node.travel_most()))
            if self._round.saves or self._saves:
                self.node.keep(self._state.keeps(self.step, rate))

    def _take_interrupted(self) -> bool:
        """Handles a Ctrl-C between the beginning of an exchange and the last number copied to the parameters. True: the vectors
        were still the node's, and changes since then are lost."""
        if not self._exchanging:
            return False
        lent = bool(self.node.lent)
        self._take(self.node.recover() if lent else None)
        return lent

    def exchange(self, loss: float = math.nan) -> None:
        """A boundary now, independent of ``every``."""
        if self._exchanging and self._take_interrupted():  # the vectors are the node's until that exchange ends
            return
        self._flat.check_groups()
        self._to_vector()
        self._give_state()
        self._exchanging = True
        self._take(self.node.exchange(self._steps, self._scale, self._mean_loss() if math.isnan(loss) else loss))

    def _to_vector(self) -> None:
        self._flat.to_vector()
        if self._averaged is not None:
            self._averaged.to_vector(self.node)
        if self._moments is not None:
            self._moments.to_vector()

    def _from_vector(self, another: bool = False) -> None:
        self._flat.from_vector()
        if self._averaged is not None:
            self._averaged.from_vector(self.node, another)

    def _end(self, why: str) -> None:
        self._alone, self._steps = self._steps, 0
        self._ended = True
        self._over = self._total > 0 and self.node.ended == "the node has left the cluster"  # all others have finished
        self._from_vector(True)
        if self._state is not None:
            self._state.undo()  # the model is finite, so the optimiser must be
        if not self.done:
            warnings.warn(f"{why}; training continues alone", RuntimeWarning, stacklevel=3)

    # -- for the program

    @property
    def step(self) -> int:
        """The cluster's step, with those of this node since the last exchange. A restarted process does not begin at 0."""
        return (self._round.steps_done if self._round else 0) + self._steps + self._alone

    @property
    def done(self) -> bool:
        """Whether the cluster has taken the ``steps`` that attach was given, or all others have ended. ``while not attachment.done`` is a loop
        that can be restarted."""
        return self._over or 0 < self._total <= self.step

    def _place(self) -> Optional[int]:
        return self.step if self.active else None

    def model_state(self) -> Dict[str, Any]:
        """The model's ``state_dict()`` as neighbours and checkpoints get it, in memory of its own: save and evaluate this one. With
        ``average.hold`` the parameters that the optimiser steps on lack a part of it, which is added here."""
        model = self._model()
        assert model is not None
        state = self.detached_state(model)
        held = self._parameters.held() if self._parameters is not None else {}
        for name, value in model.state_dict(keep_vars=True).items():
            if id(value) in held:
                state[name] += held[id(value)].to(value.device, value.dtype)
        return state

    def detached_state(self, of: Any = None) -> Dict[str, Any]:
        """A ``state_dict()`` for ``torch.save`` whose tensors have memory of their own. (Those of an attached model are parts of one vector, and
        ``torch.save`` of one part writes the whole vector.) ``of``: the model or the optimiser; None: ``model_state()``."""
        if of is None:
            return self.model_state()

        def own(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return value.detach().clone()
            if isinstance(value, dict):
                return {key: own(v) for key, v in value.items()}
            return type(value)(own(v) for v in value) if type(value) in (list, tuple) else value
        state: Dict[str, Any] = own(of.state_dict())
        return state

    # -- state and end

    @property
    def active(self) -> bool:
        """Whether steps are exchanged: not closed, and the node has not ended."""
        return not (self.closed or self._ended)

    def state_dict(self) -> Dict[str, Any]:
        """The state for the program's own checkpoints, with the edges to the neighbours; ``attach(..., state=...)`` continues from it. The
        call is a boundary: the node makes an exchange, then writes a checkpoint (the model, and two vectors for each neighbour), which
        becomes part of the state. :class:`EnvironmentFailed`: the checkpoint could not be written."""
        if self.active:
            self._save()
        step, checkpoint = self.node.checkpoint()
        return {"step": step, "checkpoint": torch.frombuffer(bytearray(checkpoint), dtype=torch.uint8),
                "tensors": self.tensors}

    def _save(self) -> None:
        before = self.node.stamp()
        for _ in range(2):  # a boundary at which the node pauses, or takes another's model, writes no checkpoint
            self.node.save()
            self._saves = True
            try:
                self.exchange()
            finally:
                self._saves = False
            if self.node.stamp() != before:
                return
        raise errors.EnvironmentFailed("the node wrote no checkpoint at this boundary (a full disk?); its log says why")

    def detach(self) -> None:
        """The parameters get their own memory; the node runs until it is closed."""
        self._release()
        self.closed = True

    def _release(self) -> None:
        self._unhook()
        if isinstance(self.node, (torchrun.Leader, torchrun.Follower)):
            self.node.release()
        if self._parameters is not None:
            self._parameters.release()
        if self._moments is not None:
            self._moments.release()
        model = self._model()
        if model is not None and self in _attached.get(model, []):
            _attached[model].remove(self)

    def abandon(self) -> None:
        """Cleans up after an attach that failed. If the node could not even be opened, it can be attached again."""
        self._release()
        if self._opens and self.node._handle is not None:
            self.node.close()
        self.closed = True

    def _part(self) -> None:
        """The node is about to leave: the steps since the last exchange count, and its last checkpoint has all state."""
        if not self._undo or not self.active or self.node.lent or self._exchanging or self._round is None:
            return
        try:
            self._to_vector()
            self._saves = True
            self._give_state()
            if self._steps > 0:
                self.node.begin(self._steps, self._scale)
        except (errors.MismatchError, errors.ConfigurationError) as why:  # whatever the program did, the node leaves
            warnings.warn(f"{why}; the node leaves with the model of the last exchange", RuntimeWarning, stacklevel=2)
        except errors.Ended:
            pass

    def close(self) -> None:
        """Leaves the cluster; the parameters keep the values of the last checkpoint."""
        if self.closed:
            return
        self.node.leave()
        if self._undo:
            self._from_vector(True)
        self._release()
        self.node.close()
        self.closed = True  # last: Ctrl-C before it, and close can be called again

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def adapters(model: torch.nn.Module, train: str = "AB") -> List[torch.nn.Parameter]:
    """Freezes all of ``model`` except its LoRA adapters (parameters with ``lora_A`` or ``lora_B`` in their names, as peft names them), and
    returns the adapters for the optimiser. ``train``: "AB" trains both; then the product of the averaged A and B is not the average of
    the products. "B" also freezes A, which must be the same on all nodes; then the two are equal."""
    wanted = {"B": ("lora_B",), "AB": ("lora_A", "lora_B")}.get(train)
    if wanted is None:
        raise errors.ConfigurationError(f"train: found {train!r}, expected 'B' or 'AB'")
    chosen = []
    for name, p in model.named_parameters():
        p.requires_grad_(any(w in name for w in wanted))
        if p.requires_grad:
            chosen.append(p)
    if not chosen:
        raise errors.ConfigurationError("the model has no parameter with 'lora_A' or 'lora_B' in its name")
    return chosen
