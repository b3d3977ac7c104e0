"""Any PyTorch model with any ``torch.optim`` optimiser, trained together with other nodes.

On the CPU the parameters become views of one flat fp32 buffer, which is the node's model vector: an exchange copies nothing here.
Parameters in other formats or on another device keep an fp32 master there, and are copied only at a boundary."""

from __future__ import annotations

import math
import operator
import warnings
import weakref
from itertools import chain
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import _c, errors, torchrun
from .node import Node, Round

_attached: "weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[Attachment]]" = weakref.WeakKeyDictionary()


def attach(node: Node, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: int = 30, *,
           share_second_moment: bool = True, state: Optional[Dict[str, Any]] = None,
           timeout: Optional[float] = None, group: Any = None, patience: float = torchrun.PATIENCE) -> "Attachment":
    """Joins ``node``'s cluster with ``model``; on return the parameters are the cluster's. From then on every ``optimizer.step()``
    is a local step, and after each ``every`` of them the node exchanges with a neighbour.

    Shared are the parameters that ``optimizer`` updates, so adapters alone where only they are trained. Buffers (such as the
    running statistics of batch norm) stay each node's own. ``state``: a ``state_dict`` of an attachment of this model, to go on
    from there with its edges, whatever is in the node's directory. ``timeout``: seconds to wait for the cluster; None: as long as
    ``node.start_timeout`` and the others take. ``group``: under torchrun, and ``patience``, see :func:`p2pml.torchrun.within`."""
    if not isinstance(node, Node):
        raise TypeError(f"the first argument is {type(node).__name__}, expected what p2pml.join returns")
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module  # the names of a model are the same on hosts with one process
    reference = _attached.get(model)
    known = reference() if reference is not None else None
    if known is not None and not known.closed:
        raise errors.OrderError("this model is attached to a node already; close that attachment first")
    host = torchrun.within(node, group, patience)
    try:
        if state is not None:
            _restore(host, state, Attachment._order(model, optimizer))
        attachment = Attachment(host, model, optimizer, every, share_second_moment)
    except BaseException:
        if isinstance(host, (torchrun.Leader, torchrun.Follower)):
            host.release()
        raise
    _attached[model] = weakref.ref(attachment)
    try:
        attachment.start(timeout)
    except BaseException:
        attachment.detach()
        raise
    return attachment


def _restore(node: Any, state: Dict[str, Any], named: List[Tuple[str, torch.nn.Parameter]]) -> None:
    theirs = [(name, tuple(shape)) for name, shape in state["tensors"]]
    mine = [(name, tuple(p.shape)) for name, p in named]
    if theirs != mine:
        other = next((f"'{a[0]}' {a[1]} and '{b[0]}' {b[1]}" for a, b in zip(theirs, mine) if a != b),
                     f"{len(theirs)} and {len(mine)} tensors")
        raise errors.MismatchError(f"the state is of another model: {other}")
    node.restore(state["step"], state["checkpoint"].numpy().tobytes())


class _Group:
    """One parameter group: a run of the flat vector."""

    def __init__(self, options: Dict[str, Any], first: int, last: int):
        self.options, self.first, self.last = options, first, last

    @property
    def rate(self) -> float:
        return float(self.options["lr"])


class Attachment:
    """The result of :func:`attach`. ``state_dict()`` is its state for the program's own checkpoints; ``close()`` leaves the cluster."""

    def __init__(self, node: Any, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: int,
                 share_second_moment: bool):
        self.node, self.model, self.optimizer = node, model, optimizer
        self.closed = self._ended = False
        self._exchanging = False  # until the result of the exchange is in the parameters
        self._steps = 0            # since the last exchange
        self._scale = 0.0          # sum of their learning rates
        self._round: Optional[Round] = None
        self._named = self._order(model, optimizer)
        adam = isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW))
        self._shares_moment = adam and share_second_moment
        node.open([(name, p.shape) for name, p in self._named], average__local_steps=every,
                  train__optimizer="adamw" if self._shares_moment else "sgd", train__rate=0.001)
        self._flat: torch.Tensor = torch.frombuffer(node.buffer(_c.MODEL), dtype=torch.float32)
        correction = node.buffer(_c.CORRECTION)
        self._correction = None if correction is None else torch.frombuffer(correction, dtype=torch.float32)
        moment = node.buffer(_c.SECOND_MOMENT)
        self._moment = None if moment is None else torch.frombuffer(moment, dtype=torch.float32)
        self._lay_out()
        self._handle: Any = None
        self._hook()

    # -- the vector

    @staticmethod
    def _order(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> List[Tuple[str, torch.nn.Parameter]]:
        """The parameters group by group, so that each group is one part of the vector."""
        names = {id(p): name for name, p in model.named_parameters()}
        named: List[Tuple[str, torch.nn.Parameter]] = []
        for number, group in enumerate(optimizer.param_groups):
            for p in group["params"]:
                if not p.requires_grad:
                    continue
                if id(p) not in names:
                    raise errors.ConfigurationError(f"group {number} of the optimiser has a parameter of shape "
                                                    f"{tuple(p.shape)} that is not in the model")
                if not p.is_floating_point():
                    raise errors.ConfigurationError(f"parameter '{names[id(p)]}' is {p.dtype}, expected a floating-point type")
                named.append((names[id(p)], p))
        if not named:
            raise errors.ConfigurationError("the optimiser has no parameter that is trained")
        return named

    def _lay_out(self) -> None:
        self._views: List[torch.Tensor] = []
        self._groups: List[_Group] = []
        at, index = 0, 0
        for group in self.optimizer.param_groups:
            first = at
            for _ in (p for p in group["params"] if p.requires_grad):
                p = self._named[index][1]
                self._views.append(self._flat[at:at + p.numel()].view(p.shape))
                at, index = at + p.numel(), index + 1
            self._groups.append(_Group(group, first, at))
        self._direct = [p.dtype == torch.float32 and p.device.type == "cpu" for _, p in self._named]
        self._copied = [i for i, direct in enumerate(self._direct) if not direct]  # parameters with a master in the vector
        self._params = [p for _, p in self._named]
        self._known = {id(p) for p in self._params}
        self._lists = [list(group["params"]) for group in self.optimizer.param_groups]
        self._frozen = [p for params in self._lists for p in params if not p.requires_grad]
        self._pointers = [view.data_ptr() for view in self._views]
        self._moments: List[torch.Tensor] = []
        if self._moment is not None:
            parts = torch.split(self._moment, [p.numel() for p in self._params])
            self._moments = [part.view(p.shape) for part, p in zip(parts, self._params)]
        self._bound: Any = None  # the optimiser's state, if all its second moments are in the vector
        self._last: List[Any] = [None] * len(self._views)
        with torch.no_grad():
            for i, ((_, p), view) in enumerate(zip(self._named, self._views)):
                view.copy_(p.detach())
                if self._direct[i]:
                    p.data = view
                else:
                    self._last[i] = p.detach().clone()
        devices = {p.device for _, p in self._named if p.device.type != "cpu"}
        self._device_correction = {d: torch.zeros_like(self._flat, device=d) for d in devices} if self._correction is not None else {}

    def _are_the_same(self) -> bool:
        groups, lists = self.optimizer.param_groups, self._lists
        return len(groups) == len(lists) and all(len(g["params"]) == len(before) and all(map(operator.is_, g["params"], before))
                                                 for g, before in zip(groups, lists))

    def _lie_in_vector(self) -> bool:
        """Whether the optimiser has the same parameters, all of them in place, so that nothing must be checked or copied."""
        if self._copied or self._frozen:
            return False
        now = chain.from_iterable(group["params"] for group in self.optimizer.param_groups)
        return list(map(torch.Tensor.data_ptr, now)) == self._pointers

    def _check_groups(self) -> None:
        if self._are_the_same() and not any(p.requires_grad for p in self._frozen):
            return
        known = self._known
        for number, group in enumerate(self.optimizer.param_groups):
            for p in group["params"]:
                if id(p) not in known and p.requires_grad:
                    raise errors.MismatchError(f"group {number} of the optimiser has a parameter of shape {tuple(p.shape)} that it had "
                                               "not when the model was attached; attach the changed model to a node of its own")

    def _to_vector(self) -> None:
        """Before an exchange. A low-precision parameter that did not move leaves its fp32 master as it is."""
        if not self._lie_in_vector():
            self._copy_to_vector()

    @torch.no_grad()
    def _copy_to_vector(self) -> None:
        for i, ((name, p), view) in enumerate(zip(self._named, self._views)):
            if p.shape != view.shape:
                raise errors.MismatchError(f"parameter '{name}' is {tuple(p.shape)} now, it was {tuple(view.shape)} when the model "
                                           "was attached; attach the changed model to a node of its own")
            if not self._direct[i]:
                now = p.detach()
                moved = torch.ne(now, self._last[i])
                view.copy_(torch.where(moved.to("cpu"), now.to("cpu", torch.float32), view))
            elif p.data_ptr() != view.data_ptr():  # the program put other memory there
                view.copy_(p.detach())
                p.data = view

    def _from_vector(self) -> None:
        if self._copied:
            self._copy_from_vector()

    @torch.no_grad()
    def _copy_from_vector(self) -> None:
        for i in self._copied:
            p = self._params[i]
            p.copy_(self._views[i])
            self._last[i] = p.detach().clone()
        if self._correction is not None:
            for copy in self._device_correction.values():
                copy.copy_(self._correction)

    # -- Adam's second moment

    @torch.no_grad()
    def _take_moments(self) -> None:
        """Keeps the vector's values, which are those of the cluster."""
        for p, view in zip(self._params, self._moments):
            state = self.optimizer.state.get(p)
            if not state and bool(view.any()):
                state = self._new_state(p)
            if state and "exp_avg_sq" in state and state["exp_avg_sq"].data_ptr() != view.data_ptr():
                state["exp_avg_sq"].copy_(view)
        self._bind_moments()

    def _bind_moments(self) -> None:
        """Optimiser state appears with the first step, or with a loaded state_dict, all of it at once: from then on its second moment is
        in the vector."""
        state = self.optimizer.state
        first = state.get(self._params[0], {}).get("exp_avg_sq") if self._moments else None
        if self._moments and not (self._bound is state and first is self._moments[0]):
            self._copy_moments()

    @torch.no_grad()
    def _copy_moments(self) -> None:
        bound = True
        for p, view, direct in zip(self._params, self._moments, self._direct):
            held = self.optimizer.state.get(p, {}).get("exp_avg_sq")
            direct = direct and held is not None and held.dtype == torch.float32
            bound = bound and direct
            if held is None or held is view:
                continue
            view.copy_(held)
            if direct:
                self.optimizer.state[p]["exp_avg_sq"] = view
        self._bound = self.optimizer.state if bound else None

    def _new_state(self, p: torch.nn.Parameter) -> Dict[str, Any]:
        done = float(self._round.steps_done if self._round else 0)
        group = next(g for g in self.optimizer.param_groups if any(q is p for q in g["params"]))
        state: Dict[str, Any] = self.optimizer.state[p]
        on = p.device if group.get("capturable") or group.get("fused") else "cpu"
        state["step"] = torch.tensor(done, device=on)
        for key in ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if group.get("amsgrad") else ()):
            state[key] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return state

    # -- steps and rounds

    def _hook(self) -> None:
        me = weakref.ref(self)

        def after(optimizer: Any = None, *_: Any) -> None:
            attachment = me()
            if attachment is not None:
                attachment._after_step()
        self.optimizer.__dict__["_p2pml"] = self  # lives as long as the optimiser
        if hasattr(self.optimizer, "register_step_post_hook"):
            self._handle = self.optimizer.register_step_post_hook(after)
            return
        original = self.optimizer.step  # torch 1

        def step(*arguments: Any, **options: Any) -> Any:
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
        self._handle = original

    def _unhook(self) -> None:
        if self._handle is None:
            return
        if hasattr(self._handle, "remove"):
            self._handle.remove()
        else:
            setattr(self.optimizer, "step", self._handle)
        self._handle = None
        self.optimizer.__dict__.pop("_p2pml", None)

    def start(self, timeout: Optional[float]) -> None:
        self._take(self.node.start(timeout))

    def _take(self, round: Optional[Round]) -> None:
        """``round`` None: an interruption has lost it; its result is in the vector."""
        self._round, self._steps, self._scale = round or self._round, 0, 0.0
        if round is not None and round.rolled_back:
            warnings.warn("the model held NaN or infinity: these steps are undone, and the model is again that of the last exchange; a "
                          "smaller learning rate may help", RuntimeWarning, stacklevel=2)
        self._from_vector()
        if round is None or round.another:
            self._take_moments()
        elif self._moments and self._bound is None:
            self._moments_to_state()
        self._exchanging = False

    def _take_interrupted(self) -> bool:
        """Ctrl-C may have interrupted between the beginning of an exchange and the last number copied to the parameters. True: the vectors
        were still the node's, and changes since then are lost."""
        if not self._exchanging:
            return False
        lent = bool(self.node.lent)
        self._take(self.node.recover() if lent else None)
        return lent

    @torch.no_grad()
    def _moments_to_state(self) -> None:
        """Updates the moments that cannot be in the vector."""
        for p, view in zip(self._params, self._moments):
            held = self.optimizer.state.get(p, {}).get("exp_avg_sq")
            if held is not None and held is not view:
                held.copy_(view)

    @torch.no_grad()
    def _correct(self) -> None:
        """model += rate * correction, outside the optimiser, group by group."""
        if self._correction is None:
            return
        if all(self._direct):
            for group in self._groups:
                self._flat[group.first:group.last].add_(self._correction[group.first:group.last], alpha=group.rate)
            return
        at = index = 0
        for group in self._groups:
            while at < group.last:
                p = self._named[index][1]
                source = self._device_correction.get(p.device, self._correction)
                p.add_(source[at:at + p.numel()].view(p.shape).to(p.dtype), alpha=group.rate)
                at, index = at + p.numel(), index + 1

    def _after_step(self) -> None:
        if not self.active:
            return
        try:
            if self._take_interrupted():
                return
            self._correct()
            self._steps += 1
            count = sum(g.last - g.first for g in self._groups)
            self._scale += sum(g.rate * (g.last - g.first) for g in self._groups) / count
            if self._steps >= max(1, self._round.steps if self._round else 1):
                self.exchange()
        except errors.Ended as why:
            self._end(str(why))

    def exchange(self, loss: float = math.nan) -> None:
        """A boundary now, independent of ``every``."""
        if self._exchanging and self._take_interrupted():  # the vectors are the node's until that exchange ends
            return
        if not self._lie_in_vector():
            self._check_groups()
            self._copy_to_vector()
        self._bind_moments()
        self._exchanging = True
        self._take(self.node.exchange(self._steps, self._scale, loss))

    def _end(self, why: str) -> None:
        self._ended = True
        self._from_vector()
        warnings.warn(f"{why}; training continues alone", RuntimeWarning, stacklevel=3)

    # -- state and end

    @property
    def active(self) -> bool:
        """Whether steps are exchanged: not closed, and the node has not ended."""
        return not (self.closed or self._ended)

    def state_dict(self) -> Dict[str, Any]:
        """For the program's own checkpoints, with the edges to the neighbours: ``attach(..., state=...)`` continues from it. It is a
        boundary: the node exchanges now, and its checkpoint of that moment (the model, and two vectors for each neighbour) is in
        the state. :class:`EnvironmentFailed`: it could not be written."""
        if self.active:
            self._save()
        step, checkpoint = self.node.checkpoint()
        return {"step": step, "checkpoint": torch.frombuffer(bytearray(checkpoint), dtype=torch.uint8),
                "tensors": [(name, tuple(p.shape)) for name, p in self._named]}

    def _save(self) -> None:
        before = self.node.stamp()
        for _ in range(2):  # a boundary at which the node pauses, or takes another's model, writes no checkpoint
            self.node.save()
            self.exchange()
            if self.node.stamp() != before:
                return
        raise errors.EnvironmentFailed("the node wrote no checkpoint at this boundary (a full disk?); its log says why")

    def detach(self) -> None:
        """The parameters get their own memory; the node runs until it is closed."""
        if self.closed:
            return
        self.closed = True
        self._unhook()
        if isinstance(self.node, (torchrun.Leader, torchrun.Follower)):
            self.node.release()
        with torch.no_grad():
            for i, (_, p) in enumerate(self._named):
                if self._direct[i]:
                    p.data = p.data.clone()
                state = self.optimizer.state.get(p, {})
                if "exp_avg_sq" in state:
                    state["exp_avg_sq"] = state["exp_avg_sq"].clone()

    def close(self) -> None:
        """Leaves the cluster; the parameters stay those of the last checkpoint."""
        if self.closed:
            return
        if not self._ended and not self.node.lent and not self._exchanging:
            self._to_vector()
        self.node.leave()
        self._from_vector()
        self.detach()
        self._flat, self._correction, self._moment = torch.empty(0), None, None  # with the last view of them the directory is free again
        self._views = self._moments = []
        self.node.close()

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def adapters(model: torch.nn.Module, train: str = "AB") -> List[torch.nn.Parameter]:
    """Freezes all of ``model`` except its LoRA adapters (parameters with ``lora_A`` or ``lora_B`` in their names, as peft names them), and
    returns these for the optimiser. ``train``: "B" freezes A as well, which must be the same on all nodes: then the average of
    the adapters is the adapter of the average. "AB" trains both, and their cross terms differ from node to node."""
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
