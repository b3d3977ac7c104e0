#!/usr/bin/python3
"""The step of bench_train_gpt.c in eager PyTorch: GPT, 4 layers, 128 wide, 4 heads, context 64, batch 16, vocabulary 96,
AdamW, one thread. Attention is fused where this PyTorch has scaled_dot_product_attention.

usage: torch_gpt.py [seconds]
"""
import math
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, WORDS, BATCHES = 4, 128, 4, 64, 16, 96, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(CONTEXT, CONTEXT)).view(1, 1, CONTEXT, CONTEXT) == 0)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.attn(self.ln_1(x)).split(WIDTH, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // HEADS)
            y = F.softmax(scores.masked_fill(self.mask, float("-inf")), -1) @ v
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.proj(F.gelu(self.fc(self.ln_2(x)), **GELU))


GELU = {"approximate": "tanh"} if torch.__version__ >= "1.12" else {}


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.ln_f = nn.Sequential(*[Block() for _ in range(LAYERS)]), nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(CONTEXT))
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    torch.set_num_threads(1)
    torch.manual_seed(7)
    ids = torch.randint(0, WORDS, (BATCHES, BATCH, CONTEXT + 1))
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    wall, used = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(wall) < 3:
        batch = ids[len(wall) % BATCHES]
        start, begun = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        logits = model(batch[:, :-1])
        F.cross_entropy(logits.reshape(-1, WORDS), batch[:, 1:].reshape(-1)).backward()
        optimizer.step()
        used.append((time.process_time() - begun) * 1e3)
        wall.append((time.perf_counter() - start) * 1e3)
    print(f"torch {torch.__version__}")
    for name, times in (("wall", wall), ("cpu", used)):
        print(f"gpt_step_{name}_ms median={statistics.median(times):.3f} min={min(times):.3f} steps={len(times)}")


if __name__ == "__main__":
    main()
