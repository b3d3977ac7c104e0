"""Lightning's ``Trainer``, unchanged except for one callback:

    node = p2pml.join("a.example:7400", secret="cluster.secret", dir="state")
    trainer = Trainer(max_epochs=3, callbacks=[p2pml.lightning.Callback(node)])
"""

from __future__ import annotations

from typing import Any, Dict, Optional

try:
    from lightning.pytorch import Callback as _Base
except ImportError:
    from pytorch_lightning import Callback as _Base  # type: ignore[no-redef, assignment, unused-ignore]

from . import errors
from .node import Node
from .pytorch import Attachment, attach


def _count_from(trainer: Any, step: int) -> None:
    """``trainer.global_step`` is the cluster's step."""
    total = trainer.fit_loop.epoch_loop.automatic_optimization.optim_progress.optimizer.step.total
    total.completed = total.ready = max(total.completed, step)
    trainer.should_stop = trainer.should_stop or 0 < trainer.max_steps <= step


class Callback(_Base):
    """Attaches when training begins and leaves the cluster when training ends. ``options``: those of :func:`p2pml.attach`; the trainer's scheduler
    is given to it, and the trainer's step is the cluster's, so that ``max_steps`` counts the cluster's steps. Losses, and a metric whose name
    ends in ``acc`` or ``accuracy``, are reported. Lightning's checkpoints contain the node's, with its edges (unless ``save_state=False``), so
    that ``fit(ckpt_path=...)`` continues from there."""

    def __init__(self, node: Node, every: Optional[int] = None, save_state: bool = True, **options: Any):
        self.node, self.every, self.options, self.save_state = node, every, options, save_state
        self.attachment: Optional[Attachment] = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise errors.ConfigurationError(f"found {len(trainer.optimizers)} optimisers, expected one: call p2pml.attach for each, with a "
                                            "node of its own")
        schedulers = [one.scheduler for one in trainer.lr_scheduler_configs]
        options = dict({"scheduler": schedulers[0] if schedulers else None}, **self.options)
        self.attachment = attach(self.node, pl_module, trainer.optimizers[0], every=self.every, **options)
        _count_from(trainer, self.attachment.step)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        if self.attachment is None:
            return
        self.attachment.report(outputs.get("loss") if isinstance(outputs, dict) else outputs)
        trainer.should_stop = trainer.should_stop or self.attachment.done

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        accuracy = next((value for name, value in metrics.items() if name.endswith(("acc", "accuracy")) and 0 <= value <= 1), None)
        if self.attachment is not None and accuracy is not None:
            self.attachment.report(accuracy=accuracy)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.attachment is not None:
            self.attachment.close()

    def state_dict(self) -> Dict[str, Any]:
        if not self.save_state or self.attachment is None or not self.attachment.active:
            return {}
        return {"node": self.attachment.state_dict()}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        if "node" in state_dict:
            self.options["state"] = state_dict["node"]
