"""The models of others, judged by losses that the program measures (p2pml_losses in lib/p2pml.h)."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Callable, Iterator, List, Optional

from . import _c, errors


def losses_of(found: Any) -> List[float]:
    """A number, or one for each example: of Python, numpy, PyTorch or JAX."""
    values = found.tolist() if hasattr(found, "tolist") else found
    flat: List[Any] = [values]
    while any(isinstance(value, (list, tuple)) for value in flat):
        flat = [one for value in flat for one in (value if isinstance(value, (list, tuple)) else [value])]
    try:
        return [float(value) for value in flat]
    except (TypeError, ValueError):
        raise errors.ConfigurationError(f"judge: found {str(found)[:60]!r}, expected the mean loss of the model, or the loss of each example") from None


class Judge:
    """``measure``, a function of the address of a model that returns its losses, for the library. What it raises is raised by the call of the
    node in which it was asked (:meth:`check`)."""

    def __init__(self, measure: Callable[[int], Any]):
        self._measure, self._raised, self._over = measure, None, False  # type: Any, Optional[BaseException], bool
        self.function = _c.LOSSES(self._call)

    def _call(self, _: Any, model: Any, losses: Any, most: int) -> int:
        if self._over:
            return 0
        try:
            found = losses_of(self._measure(ctypes.addressof(model.contents)))[:most]
            for i, loss in enumerate(found):
                losses[i] = loss
            return len(found)
        except BaseException as error:  # none can pass through C
            self._raised, self._over = error, isinstance(error, Exception)  # after Ctrl-C it is asked again
            return -1

    def check(self) -> None:
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised


def of_vector(judge: Callable[[Any], Any], parameters: int) -> Judge:
    """``judge``: of the model as a flat numpy array."""
    def measure(address: int) -> Any:
        import numpy
        model = numpy.frombuffer((ctypes.c_float * parameters).from_address(address), dtype=numpy.float32)
        model.flags.writeable = False
        return judge(model)
    return Judge(measure)


@contextlib.contextmanager
def evaluated(model: Any) -> Iterator[None]:
    """The module computes without gradients and without dropout. Batch norm takes the statistics of the batch, since the running ones are this
    node's own, and belong to its own parameters; they, and all modes, are as before afterwards."""
    import torch
    norms = torch.nn.modules.batchnorm
    modes = [(part, part.training) for part in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        with torch.no_grad():
            model.eval()
            for part, _ in modes:
                if isinstance(part, norms._BatchNorm) and not isinstance(part, norms.SyncBatchNorm):  # that one waits for other processes
                    part.training = True
            yield
    finally:
        for part, training in modes:
            part.training = training
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
