"""LoRA with peft, a process for each of three hosts: lora_peft.py DIR INDEX STEPS PORT PORT PORT. Each sees a third of the classes.

The adapters travel, and nothing else. All hosts end with the same adapter, DIR/INDEX/adapter, which peft opens anywhere."""
import sys
import peft
import torch
import transformers
import p2pml

folder, index, steps, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
torch.set_num_threads(1)
settings = transformers.GPT2Config(vocab_size=13, n_positions=8, n_embd=32, n_layer=2, n_head=2, num_labels=12, pad_token_id=12,
                                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def base():
    """Stands for a model that is downloaded: the same weights everywhere."""
    torch.manual_seed(0)
    return transformers.GPT2ForSequenceClassification(settings)


def batch(count, classes):
    """The class of each row is its most frequent token."""
    x = torch.randint(12, (count, 8))
    favourite = torch.randint(12 // classes, (count, 1)) * classes + (index if classes == 3 else 0)
    return torch.where(torch.rand(count, 8) < 0.6, favourite, x), favourite[:, 0]


model = peft.get_peft_model(base(), peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
peers = [f"127.0.0.1:{port}" for port in ports if port != ports[index]]
node = p2pml.join(peers, dir=f"{folder}/{index}", listen=f"127.0.0.1:{ports[index]}")
together = p2pml.attach(node, model, optimizer, steps=steps)
torch.manual_seed(10 + index)
while not together.done:
    x, y = batch(32, 3)
    model(input_ids=x, labels=y).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
together.close()  # all have the same adapter, in memory of its own
model.save_pretrained(f"{folder}/{index}/adapter")
alone = peft.PeftModel.from_pretrained(base(), f"{folder}/{index}/adapter").merge_and_unload()  # a model without adapters
with torch.no_grad():
    torch.manual_seed(1)
    x, y = batch(2000, 1)
    print("accuracy", (alone(input_ids=x).logits.argmax(1) == y).float().mean().item(), "parameters", node.parameters, flush=True)
