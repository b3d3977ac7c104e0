"""Hugging Face's ``Trainer``, unchanged except for one callback:

    node = p2pml.join("a.example:7400", secret="cluster.secret", dir="state")
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[p2pml.huggingface.Callback(node)])
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from transformers import TrainerCallback

from .node import Node
from .pytorch import Attachment, attach


class Callback(TrainerCallback):
    """Attaches when training begins, once the optimiser exists, and leaves the cluster when training ends. ``options``: those of
    :func:`p2pml.attach`; the trainer's scheduler is given to it, the trainer's step is the cluster's, so that ``max_steps`` counts the cluster's steps,
    and the trainer's logs are reported. After every checkpoint of the trainer the node writes its own at its next exchange; a restarted program
    continues from the node's checkpoint."""

    def __init__(self, node: Node, every: Optional[int] = None, **options: Any):
        self.node, self.every, self.options = node, every, options
        self.attachment: Optional[Attachment] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, lr_scheduler: Any = None,
                       **_: Any) -> None:
        optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate's wrapper steps the one inside
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"the trainer's optimiser is {type(optimizer).__name__}, expected one of torch.optim's kind; DeepSpeed's and "
                            "FSDP's split the model and cannot be attached")
        options = dict({"scheduler": lr_scheduler}, **self.options)
        self.attachment = attach(self.node, model, optimizer, every=self.every, **options)
        state.global_step = max(state.global_step, self.attachment.step)
        control.should_training_stop = control.should_training_stop or self.attachment.done

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if self.attachment is not None and logs:
            accuracy = next((value for key, value in logs.items() if key.endswith("accuracy") and 0 <= value <= 1), None)
            self.attachment.report(logs.get("loss"), accuracy)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.attachment is not None and self.attachment.done:
            control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.attachment is not None and self.attachment.active:
            self.attachment.node.save()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.attachment is not None:
            self.attachment.close()
