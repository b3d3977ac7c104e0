"""Hugging Face's ``Trainer``, unchanged except for one callback:

    node = p2pml.join("a.example:7400", secret="cluster.secret", dir="state")
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[p2pml.huggingface.Callback(node, every=30)])
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from transformers import TrainerCallback

from .node import Node
from .pytorch import Attachment, attach


class Callback(TrainerCallback):
    """Attaches when training begins, once the optimiser exists, and leaves the cluster when training ends. ``options``: those of
    :func:`p2pml.attach`. After every checkpoint of the trainer the node writes its own at its next exchange; a restarted program
    continues from the node's checkpoint."""

    def __init__(self, node: Node, every: int = 30, **options: Any):
        self.node, self.every, self.options = node, every, options
        self.attachment: Optional[Attachment] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any) -> None:
        optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate's wrapper steps the one inside
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"the trainer's optimiser is {type(optimizer).__name__}, expected one of torch.optim's kind; DeepSpeed's and "
                            "FSDP's split the model and cannot be attached")
        self.attachment = attach(self.node, model, optimizer, every=self.every, **self.options)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.attachment is not None and self.attachment.active:
            self.attachment.node.save()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.attachment is not None:
            self.attachment.close()
