from __future__ import annotations

from typing import Any, Callable, Tuple

from . import errors


class Module:
    """A PyTorch module as a model of `p2pml.lab.rounds`: one module, whose trainable parameters are a node's while that node computes."""

    def __init__(self, module: Any, loss: Any):
        import numpy
        import torch
        if not callable(loss):
            raise errors.ConfigurationError(f"loss: found {loss!r}, expected a function of the module, the node and a numpy generator that returns the "
                                            "loss of a batch as a tensor")
        kept = [name for name, part in module.named_modules()
                if isinstance(part, torch.nn.modules.batchnorm._NormBase) and part.track_running_stats]  # type: ignore[attr-defined, unused-ignore]
        if kept:
            raise errors.ConfigurationError(f"model: '{kept[0]}' keeps running statistics, which no method averages; use GroupNorm, or "
                                            "track_running_stats=False")
        self._module, self._loss = module, loss
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        if not self._parameters:
            raise errors.ConfigurationError("model: found a module without trainable parameters")
        self.start = numpy.concatenate([p.detach().cpu().numpy().astype(numpy.float32).ravel() for p in self._parameters])

    def _load(self, x: Any) -> None:
        import torch
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(torch.from_numpy(x.copy()).to(self._parameters[0]), self._parameters)

    def __call__(self, x: Any, node: int, random: Any) -> Tuple[float, Any]:
        import torch
        self._load(x)
        with torch.random.fork_rng(devices=[]):  # dropout's numbers follow from the seed, too
            torch.manual_seed(int(random.integers(2 ** 62)))
            loss = self._loss(self._module, node, random)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise errors.ConfigurationError(f"loss: found {type(loss).__name__} {str(loss)[:60]}, expected one number as a tensor with a gradient")
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        whole = [(torch.zeros_like(p) if g is None else g).reshape(-1) for p, g in zip(self._parameters, gradients)]
        return float(loss.detach()), torch.cat(whole).float().cpu().numpy()

    def measured(self, measure: Callable[[Any], float]) -> Callable[[Any], float]:
        """The measure of a module as one of a vector."""
        def of_vector(x: Any) -> float:
            import torch
            self._load(x)
            training = self._module.training
            self._module.eval()
            try:
                with torch.no_grad():
                    return float(measure(self._module))
            finally:
                self._module.train(training)
        return of_vector


def is_module(model: Any) -> bool:
    return hasattr(model, "named_parameters") and hasattr(model, "state_dict")
