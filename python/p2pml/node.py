"""A node of a cluster, for any training loop whose parameters are, or can be copied to, flat vectors."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import glob
import json
import logging
import math
import numbers
import operator
import os
import select
import sys
import time
import weakref
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _c, _judge, errors
from ._beside import Beside

logger = logging.getLogger("p2pml")

_PATIENCE = 10.0  # seconds of waiting before a warning
_AT_ONCE_MS = 20  # the library itself waits this long, enough for most exchanges; Ctrl-C takes effect after that
_STEPS_MAX = 10 ** 9  # in a round, as in the library
_LEAVE = 20.0  # seconds that the end of the program waits for the last checkpoint


TAKEN, RESTORED = _c.TAKEN, _c.RESTORED


class Round(NamedTuple):
    """The next steps, and the state of the vectors."""
    steps: int         #: local steps to take before the next exchange
    steps_done: int    #: steps done before these, in the cluster's count
    pace: float        #: this node's time per step over its neighbours' median
    another: int       #: the model was replaced by a member's (TAKEN), or a checkpoint's (RESTORED); else 0
    rolled_back: bool  #: NaN or infinity was given; the model is the last published one again
    changes: Optional[Tuple[Any, Any, Any]]  #: (index, added to the model, new correction), or None: anything may have changed
    weight: float = 1.0  #: of this node's gradient: its examples over the mean of all nodes
    saves: bool = False  #: the next exchange writes a checkpoint: :meth:`Node.keep` is expected before it


class _Handle:
    """The library's node. Every view of its vectors keeps it alive; with the last view the memory is freed, and the directory is free again.
    A callback in C does this: Ctrl-C could interrupt a __del__ in Python, but not the callback."""

    def __init__(self, pointer: int):
        self.pointer = pointer
        self.process = os.getpid()
        _closers[:] = [one for one in _closers if one() is not None]
        _closers.append(weakref.ref(self, functools.partial(_c.library().close_behind, pointer)))


_closers: "List[weakref.ref[_Handle]]" = []


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    return str(value)


def _bytes(text: str, what: str) -> bytes:
    """Encodes text for the library, whose strings end at the first NUL."""
    if not isinstance(text, str):
        raise errors.ConfigurationError(f"{what}: found {type(text).__name__}, expected text")
    if "\0" in text:
        raise errors.ConfigurationError(f"{what}: found {text!r} with a NUL, expected text without it")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise errors.ConfigurationError(f"{what}: found {text!r}, expected text that UTF-8 can express") from None


def _peers(peers: Any) -> str:
    found = [peers] if isinstance(peers, str) else list(peers) if isinstance(peers, (list, tuple, set)) else None
    if found is None or not all(isinstance(one, str) for one in found):
        raise errors.ConfigurationError(f"peers: found {peers!r}, expected 'host:port', several with commas or as a list")
    return ",".join(found)


def _size(n: Any, name: str) -> int:
    try:
        size = operator.index(n)
    except TypeError:
        raise errors.ConfigurationError(f"tensor '{name}': found the dimension {n!r}, expected a whole number") from None
    if not 0 < size < 1 << 63:  # ctypes would cut it to 64 bits
        raise errors.ConfigurationError(f"tensor '{name}': found the dimension {size}, expected 1 or more")
    return size


def _tensor(tensor: Any, i: int) -> Tuple[str, Tuple[int, ...]]:
    try:
        name, shape = tensor
        sizes = tuple(shape)
    except (TypeError, ValueError):
        raise errors.ConfigurationError(f"tensor {i}: found {tensor!r}, expected a name and a shape") from None
    _bytes(name, f"the name of tensor {i}")
    return name, tuple(_size(n, name) for n in sizes)


def _check_timeout(timeout: Optional[float]) -> None:
    if timeout is not None and (not isinstance(timeout, numbers.Real) or math.isnan(timeout)):
        raise errors.ConfigurationError(f"timeout: found {timeout!r}, expected seconds, or None")


_running: "weakref.WeakSet[Node]" = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    for node in list(_running):
        try:
            node.leave(timeout=_LEAVE)
        except BaseException as error:  # no error may keep a program from ending
            logger.warning("%s", error)


class Node(Beside):
    """Made by :func:`join`. The vectors exist from :meth:`open` on; between :meth:`begin` and :meth:`end` they belong to the node."""

    def __init__(self, peers: Union[str, Sequence[str], None] = None, *, secret: Optional[str] = None,
                 config: Union[str, "os.PathLike[str]", None] = None, dir: Union[str, "os.PathLike[str]", None] = None,
                 name: Optional[str] = None, listen: Optional[str] = None, resume: bool = True, **settings: Any):
        self._settings: Dict[str, Any] = {"log.level": "warn", "node.http": "127.0.0.1:0"}
        self._config = os.fspath(config) if config is not None else None
        if self._config is not None:  # the file decides
            self._settings = {}
        if peers is not None:
            self._settings["peers"] = _peers(peers)
        if secret is not None:
            self._settings["cluster.secret_file"] = os.fspath(secret)
        elif listen is None and self._config is None:
            listen = "127.0.0.1:0"  # without a secret, no other machine may connect
        for key, value in (("node.dir", dir), ("node.name", name), ("node.listen", listen)):
            if value is not None:
                self._settings[key] = os.fspath(value) if key == "node.dir" else value
        for key, value in settings.items():
            self._settings[key.replace("__", ".")] = value
        self._resume = resume
        self._elsewhere = False  # torchrun: the first process of the host has the node
        self._handle: Optional[_Handle] = None
        self.meanwhile: Callable[[], None] = lambda: None  # called at intervals while it waits for others
        self._lent = self._started = False
        self._ended: Optional[str] = None
        self._closed = False
        self._parting: Callable[[], Optional[Callable[[], None]]] = lambda: None
        self._page: Optional[str] = None
        self._judge: Optional[_judge.Judge] = None

    # -- opening

    @property
    def has_file(self) -> bool:
        """It was given a configuration file, which decides what the program does not."""
        return self._config is not None

    def open(self, tensors: Iterable[Tuple[str, Sequence[int]]], *, changes: bool = False, examples: int = 0,
             judge: Union[Callable[[Any], Any], _judge.Judge, None] = None, **settings: Any) -> "Node":
        """Allocates the vectors. ``tensors``: (name, shape) in the order of the vector, the same on all nodes.
        ``examples``: how many this program has; it multiplies its gradients by :attr:`Round.weight`. ``judge``: a function
        of a model (a flat numpy array) that returns its loss on examples of this program's own, or better the loss of each, always the same
        ones: before a model of others replaces this one, it is measured, and refused if it is clearly worse; and now and then what a neighbour
        pulls to (``average.robust``). ``settings``: keys with ``__`` for the dot;
        those given to :func:`join` override them."""
        self._check_open(False)
        merged = {key.replace("__", "."): value for key, value in settings.items()}
        merged.update(self._settings)
        tensors = [_tensor(tensor, i) for i, tensor in enumerate(tensors)]
        shapes = [(ctypes.c_size_t * max(1, len(shape)))(*shape) for _, shape in tensors]
        table = (_c.Tensor * max(1, len(tensors)))(
            *[_c.Tensor(name.encode(), shape, len(dims)) for (name, dims), shape in zip(tensors, shapes)])
        texts = [_bytes(f"{key}={_text(value)}", key) for key, value in merged.items()]
        options = _c.Options(ctypes.sizeof(_c.Options), self._config.encode() if self._config else None, None,
                             (ctypes.c_char_p * (len(texts) + 1))(*texts, None), table, len(tensors), int(self._resume and self._has_checkpoint(merged.get("node.dir"))),
                             int(changes), examples)
        if judge is not None and not callable(judge) and not isinstance(judge, _judge.Judge):
            raise errors.ConfigurationError(f"judge: found {judge!r}, expected a function of a model that returns its loss")
        parameters = sum(math.prod(shape) for _, shape in tensors)
        if judge is not None:
            self._judge = judge if isinstance(judge, _judge.Judge) else _judge.of_vector(judge, parameters)
            options.judge = self._judge.function
        reason = ctypes.create_string_buffer(600)
        pointer = _c.library().open(ctypes.byref(options), reason, len(reason))
        if not pointer:
            raise errors.ConfigurationError(reason.value.decode(errors="replace"))
        self._handle = _Handle(pointer)
        self._into = _c.Round()  # one for all rounds
        self.tensors = tensors
        self.parameters = parameters
        return self

    def _has_checkpoint(self, folder: Optional[str]) -> bool:
        # None: a file may name the folder; the library then looks there, and reports an empty one.
        return folder is None or bool(glob.glob(os.path.join(glob.escape(str(folder)), "checkpoint-*.safetensors")))

    def _checkpoints(self) -> List[Tuple[int, str]]:
        """(step, path), the newest first."""
        folder = self._settings.get("node.dir")
        if folder is None:
            raise errors.ConfigurationError("the state of a node is in its directory: join with dir=...")
        found = glob.glob(os.path.join(glob.escape(str(folder)), "checkpoint-*.safetensors"))
        return sorted(((int(path[path.rindex("-") + 1:-len(".safetensors")]), path) for path in found), reverse=True)

    def stamp(self) -> Optional[Tuple[str, int]]:
        """Changes with every new checkpoint; None: no checkpoint."""
        found = self._checkpoints()
        return (found[0][1], os.stat(found[0][1]).st_mtime_ns) if found else None

    def checkpoint(self) -> Tuple[int, bytes]:
        """Step and content of the newest checkpoint: model, optimiser vectors, blob, and the edges to the neighbours."""
        found = self._checkpoints()
        if not found:
            raise errors.OrderError("there is no checkpoint yet")
        with open(found[0][1], "rb") as f:
            return found[0][0], f.read()

    def restore(self, step: int, checkpoint: bytes) -> None:
        """Makes the node continue from this checkpoint; call it before :meth:`open`. Later checkpoints in its directory are renamed, and the
        journal of its edges is removed."""
        self._check_open(False)
        later = [(s, path) for s, path in self._checkpoints() if s > step]
        folder = str(self._settings["node.dir"])
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"checkpoint-{step}.safetensors")
        part = path + ".tmp-restore"
        try:
            with open(part, "wb") as f:
                f.write(checkpoint)
                f.flush()
                os.fsync(f.fileno())
            for s, one in later:  # not before: a failed write must not supersede anything
                os.replace(one, os.path.join(folder, f"superseded-{s}.safetensors"))
            for journal in glob.glob(os.path.join(glob.escape(folder), "journal-*")):  # it leads beyond this checkpoint
                os.remove(journal)
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(part)
            raise
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)  # else a power cut could bring back what was superseded
        finally:
            os.close(directory)
        self._resume = True

    def _check_open(self, wanted: bool) -> None:
        if self._closed:
            raise errors.OrderError("the node is closed; join again")
        if wanted and self._elsewhere:
            raise errors.OrderError("the node of this host is in its first process; call it there")
        if wanted and self._handle is None:
            raise errors.OrderError("the node has no vectors yet: attach a model to it, or call open with names and shapes")
        if not wanted and self._handle is not None:
            raise errors.OrderError("the node has a model already; a second model needs a node of its own")

    def _pointer(self) -> Any:
        self._check_open(True)
        assert self._handle is not None
        if self._handle.process != os.getpid():
            raise errors.ForkError(f"the node belongs to process {self._handle.process}, from which this one was forked; join with "
                                   "a node of its own here")
        return self._handle.pointer

    def buffer(self, which: int) -> Optional[Any]:
        """The model (0), Adam's second moment (1), the correction (2) or what is held back (3) as a ctypes array of floats, which numpy.frombuffer and
        torch.frombuffer use without a copy; None if the configuration has none."""
        address = _c.library().vector(self._pointer(), which, None)
        if not address:
            return None
        array = (ctypes.c_float * self.parameters).from_address(address)
        setattr(array, "_owner", self._handle)  # the memory lives as long as a view of it
        return array

    def _array(self, which: int) -> Any:
        import numpy
        buffer = self.buffer(which)
        return None if buffer is None else numpy.frombuffer(buffer, dtype=numpy.float32)

    @property
    def model(self) -> Any:
        """The model as a flat numpy array, to be filled in before :meth:`start`."""
        return self._array(_c.MODEL)

    @model.setter
    def model(self, values: Any) -> None:  # also of `node.model += step`
        self._array(_c.MODEL)[:] = values

    @property
    def correction(self) -> Any:
        """The vector to add to the model with every local step, times the learning rate; None without drift correction."""
        return self._array(_c.CORRECTION)

    @property
    def second_moment(self) -> Any:
        return self._array(_c.SECOND_MOMENT)

    @property
    def held(self) -> Any:
        """With ``average.hold``, what the model lacks while this program takes its steps: neighbours and checkpoints get model + held. Save
        and evaluate that sum, and only read this vector. None without it; zero once the node has ended."""
        return self._array(_c.HELD)

    # -- rounds

    def _check(self, code: int) -> None:
        if code == _c.OK:
            return
        reason = (_c.library().reason(self._pointer()) or b"").decode(errors="replace")
        if code == _c.ENDED:
            self._ended = reason
            _running.discard(self)
        raise errors.of(code, reason)

    def _await(self, call: Any, what: str, timeout: Optional[float]) -> Round:
        """Waits in Python, so that Ctrl-C works; the node continues in the meantime, and the call can be repeated."""
        _check_timeout(timeout)
        into = self._into
        code = call(self._pointer(), _AT_ONCE_MS if timeout is None else 0, into)
        if code == _c.AGAIN:
            self._check_judge()
            code = self._wait(call, into, what, timeout)
        self._check(code)
        changes = None if into.dense else self._changes(into)
        return Round(into.steps, into.steps_done, into.pace, into.another, bool(into.rolled_back), changes, into.weight, bool(into.saves))

    def _wait(self, call: Any, into: _c.Round, what: str, timeout: Optional[float]) -> int:
        began, told, poll = time.monotonic(), False, self._poll()
        while True:
            code: int = call(self._pointer(), 0, into)
            if code != _c.AGAIN:
                return code
            self._check_judge()
            waited = time.monotonic() - began
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"{what} takes longer than {timeout} s; it continues, and the call can be repeated")
            if waited > _PATIENCE and not told:
                told = True
                logger.warning("waiting for %s for %.0f s", what, waited)
            self.meanwhile()
            poll.poll(1000 if timeout is None else max(1, int(min(1.0, timeout - waited) * 1000)))

    def _check_judge(self) -> None:
        if self._judge is not None:
            self._judge.check()

    def _poll(self) -> "select.poll":
        poll = select.poll()
        poll.register(_c.library().fd(self._pointer()), select.POLLIN)
        return poll

    @staticmethod
    def _changes(r: _c.Round) -> Tuple[Any, Any, Any]:
        import numpy

        def array(pointer: Any) -> Any:
            return numpy.ctypeslib.as_array(pointer, (r.changed,)).copy() if pointer and r.changed else None
        return array(r.index), array(r.model), array(r.correction)

    def start(self, timeout: Optional[float] = None) -> Round:
        """Joins the cluster; on return the model vector holds the cluster's model."""
        self._check_open(True)
        _running.add(self)
        round = self._await(_c.library().start, "other nodes", timeout)
        if not self._started and self.page:
            print(f"p2pml: this node's page is {self.page}", file=sys.stderr, flush=True)
        self._started = True
        return round

    @property
    def page(self) -> Optional[str]:
        """The address of this node's web page, once it has started; None: it has none (``node__http=""``)."""
        if self._page is None:
            mine: Dict[str, Any] = next((one for one in self.status().get("members", []) if one.get("self")), {})
            self._page = f"http://{mine['http']}/" if mine.get("http") else ""
        return self._page or None

    def begin(self, steps: int, step_scale: float, loss: float = math.nan) -> None:
        """Lends the vectors to the node, after ``steps`` local steps whose learning rates sum to ``step_scale``."""
        self._lend((), steps, step_scale, loss)

    def _lend(self, harmless: Tuple[int, ...], steps: int, step_scale: float, loss: float) -> None:
        pointer, before = self._pointer(), self._lent
        steps, step_scale, loss = operator.index(steps), float(step_scale), float(loss)  # ctypes would refuse them after `_lent` is set
        if not 0 <= steps <= _STEPS_MAX:  # ctypes would cut it to 64 bits
            raise errors.ConfigurationError(f"steps: found {steps}, expected 0 to {_STEPS_MAX}")
        self._lent = True  # before the call: an interruption after it must not hide it
        code = _c.library().round_begin(pointer, steps, step_scale, loss)
        if code not in (_c.OK, *harmless):
            self._lent = before
            self._check(code)

    def end(self, timeout: Optional[float] = None) -> Round:
        """Takes the averaged vectors back."""
        round = self._await(_c.library().round_end, "the exchange of a round", timeout)
        self._lent = False
        return round

    def exchange(self, steps: int, step_scale: float, loss: float = math.nan, timeout: Optional[float] = None) -> Round:
        """``begin`` and ``end`` in one call; correct even if Ctrl-C interrupted the previous call."""
        self._lend((_c.EORDER,) if self._started else (), steps, step_scale, loss)  # EORDER: they are lent already
        return self.end(timeout)

    def recover(self) -> Optional[Round]:
        """After an interruption: takes the vectors back if the node has them; None: it did not have them."""
        try:
            return self.end()
        except errors.OrderError:
            self._lent = False
            return None

    @property
    def lent(self) -> bool:
        """Between begin and end: the vectors are the node's."""
        return self._lent

    @property
    def ended(self) -> Optional[str]:
        """Why the node has ended; None while it has not."""
        return self._ended

    # -- the rest

    def status(self) -> Dict[str, Any]:
        """The node and its cluster, as GET /status of a daemon."""
        text = _c.library().status(self._pointer())
        if not text:
            self._check(_c.EORDER)
        try:
            status: Dict[str, Any] = json.loads(ctypes.string_at(text))
            return status
        finally:
            _c.library().free(text)

    def save(self) -> None:
        """Writes a checkpoint with the next exchange."""
        self._check(_c.library().save(self._pointer()))

    def before_leave(self, call: Callable[[], Optional[Callable[[], None]]]) -> None:
        """``call()``, if it is not None, is called once before the node leaves: a weak reference to a method."""
        self._parting = call

    def leave(self, timeout: Optional[float] = None) -> None:
        """Leaves the cluster with a checkpoint. The vectors stay."""
        if self._handle is None or self._ended is not None or self._handle.process != os.getpid():
            return
        call, self._parting = self._parting(), lambda: None
        if call is not None:
            call()
        began = time.monotonic()
        while True:
            code = _c.library().leave(self._pointer(), 0)
            if code != _c.AGAIN:
                break
            self._check_judge()
            if timeout is not None and time.monotonic() - began > timeout:
                raise TimeoutError(f"the node has not left within {timeout} s")
            self._poll().poll(100)
        self._ended = (_c.library().reason(self._pointer()) or b"").decode(errors="replace")
        _running.discard(self)
        if code != _c.ENDED:
            self._check(code)

    def close(self) -> None:
        """Leaves, and frees the vectors with their last view."""
        if self._closed:
            return
        self.leave()
        self._handle = None
        self._closed = True

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def join(peers: Union[str, Sequence[str], None] = None, **options: Any) -> Node:
    """A node that will join the cluster of ``peers`` ("host:port", several with commas or as a list; None: the first node).

    secret: file with the cluster's secret; without it the node listens only on this machine. config: a YAML file, as for ``p2pml-node
    --config``. dir: where the node keeps its identity and its checkpoints; every node needs its own. listen: host:port. resume: continue from the
    newest checkpoint in dir. All other keys of ``p2pml-node --help``, with ``__`` for the dot: ``average__mode="sync"``.

    Nothing happens before a model is attached (:func:`attach`), or :meth:`Node.open` and :meth:`Node.start` are called."""
    return Node(peers, **options)
