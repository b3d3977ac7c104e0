"""A small GPT on the characters of a text, one process per part: gpt.py DIR INDEX STEPS TEXT PORT...

Kill any of them with -9 and restart it: it continues with the others' model."""
import sys
import torch
import p2pml

folder, index, steps, text, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), open(sys.argv[4]).read(), sys.argv[5:]
torch.set_num_threads(1)
torch.manual_seed(0)
letters = sorted(set(text))
tokens = torch.tensor([letters.index(c) for c in text])
test, part = tokens[-len(tokens) // 10:], len(tokens) * 9 // 10 // len(ports)
tokens = tokens[index * part:(index + 1) * part]
CONTEXT, WIDTH = 32, 32


class GPT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = torch.nn.Embedding(len(letters), WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, len(letters))

    def forward(self, x):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.layers(self.token(x) + self.place.weight[:x.shape[1]], mask=mask))


def loss(model, source, count):
    at = torch.randint(len(source) - CONTEXT - 1, (count,))
    x = torch.stack([source[i:i + CONTEXT + 1] for i in at])
    return torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
node = p2pml.join([f"127.0.0.1:{p}" for p in ports if p != ports[index]], dir=f"{folder}/{index}", listen=f"127.0.0.1:{ports[index]}",
                  log__level="info")
together = p2pml.attach(node, model, optimizer)
torch.manual_seed(index)
print("begins at", together.step, flush=True)
while together.step < steps:  # in the cluster's steps
    error = loss(model, tokens, 16)
    error.backward()
    optimizer.step()
    optimizer.zero_grad()
    if together.step % 50 == 0:
        together.report(loss=error)  # for the node's page
        print("step", together.step, flush=True)
with torch.no_grad():
    print("loss", loss(model, test, 200).item(), "nats, of", torch.log(torch.tensor(len(letters))).item(), flush=True)
