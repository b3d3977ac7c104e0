"""Hugging Face's Trainer, two processes: trainer_hf.py DIR INDEX STEPS PORT PORT. Each process sees half of the classes."""
import sys
import torch
import transformers
import p2pml

folder, index, steps, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
torch.set_num_threads(1)
truth = torch.randn(20, 4, generator=torch.Generator().manual_seed(5))


def examples(count, seed, halves):
    x = torch.randn(count, 20, generator=torch.Generator().manual_seed(seed))
    return [{"x": a, "labels": b} for a, b in zip(x, (x @ truth).argmax(1)) if halves == 2 or b % 2 == index]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))

    def forward(self, x, labels):
        logits = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


node = p2pml.join(f"127.0.0.1:{ports[1 - index]}", dir=f"{folder}/{index}", listen=f"127.0.0.1:{ports[index]}", average__mode="sync")
arguments = transformers.TrainingArguments(f"{folder}/hf{index}", max_steps=steps, per_device_train_batch_size=32, learning_rate=5e-3,
                                           save_steps=steps // 2, report_to=[], use_cpu=True, disable_tqdm=True, seed=1)
trainer = transformers.Trainer(Model(), arguments, train_dataset=examples(4000, 10 + index, 1), eval_dataset=examples(2000, 1, 2),
                               compute_metrics=lambda e: {"accuracy": float((e.predictions.argmax(1) == e.label_ids).mean())},
                               callbacks=[p2pml.huggingface.Callback(node)])
trainer.train()
print("accuracy", trainer.evaluate()["eval_accuracy"], flush=True)
