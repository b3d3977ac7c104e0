"""Lightning's Trainer, two processes: fit_lightning.py DIR INDEX STEPS PORT PORT. Each process sees half of the classes."""
import sys
import torch
import p2pml
try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning

folder, index, steps, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
torch.set_num_threads(1)
torch.manual_seed(1)
truth = torch.randn(20, 4, generator=torch.Generator().manual_seed(5))


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))

    def training_step(self, batch, number):
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-3)


x = torch.randn(4000, 20, generator=torch.Generator().manual_seed(10 + index))
y = (x @ truth).argmax(1)
mine = y % 2 == index
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x[mine], y[mine]), batch_size=32, shuffle=True)
node = p2pml.join(f"127.0.0.1:{ports[1 - index]}", dir=f"{folder}/{index}", listen=f"127.0.0.1:{ports[index]}", average__mode="sync")
trainer = lightning.Trainer(max_steps=steps, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                            default_root_dir=folder, callbacks=[p2pml.lightning.Callback(node)])
model = Model()
trainer.fit(model, loader)
with torch.no_grad():
    x = torch.randn(2000, 20)
    print("accuracy", (model.layers(x).argmax(1) == (x @ truth).argmax(1)).float().mean().item(), flush=True)
