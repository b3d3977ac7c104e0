"""p2pml: train one model on many machines, without a server.

    import p2pml
    node = p2pml.join("a.example:7400", secret="cluster.secret")
    p2pml.attach(node, model, optimizer)
    for batch in loader:
        loss(model(batch)).backward(); optimizer.step(); optimizer.zero_grad()
"""

import importlib
from typing import Any, Optional

from .errors import ConfigurationError, Ended, EnvironmentFailed, Error, ForkError, MismatchError, OrderError
from .node import Node, Round, join

__version__ = "0.1.0"
__all__ = ["join", "attach", "Node", "Round", "Error", "ConfigurationError", "Ended", "EnvironmentFailed", "ForkError",
           "MismatchError", "OrderError"]


_INTEGRATIONS = ("huggingface", "jax", "lab", "lightning", "pytorch", "torchrun")


def __getattr__(name: str) -> Any:
    """Modules that need further packages are loaded on first use."""
    if name in _INTEGRATIONS:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'p2pml' has no attribute {name!r}")


def attach(node: Node, model: Any, optimizer: Any, every: Optional[int] = None, **options: Any) -> Any:
    """Trains ``model`` together with the other nodes: see :func:`p2pml.pytorch.attach`."""
    from . import pytorch
    return pytorch.attach(node, model, optimizer, every=every, **options)
