"""The peer of bench/train_cpu.py: the same Llama written plainly in eager PyTorch, with SDPA and fused AdamW.

Reads initial weights (safetensors) and packed samples (a .pt tensor [steps, batch, seq_len + 1]) and prints one JSON object:
the time of each step's end and each step's loss.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


class Attention(torch.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (torch.nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, rotation):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.heads, -1) for w in (self.wq, self.wk, self.wv))
        q, k = (rotate(y, rotation).transpose(1, 2) for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


def rotate(x, rotation):
    """Pairs (2i, 2i+1) as complex numbers times exp(i angle)."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2).type_as(x)


class FeedForward(torch.nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w3 = torch.nn.Linear(dim, hidden, bias=False), torch.nn.Linear(dim, hidden, bias=False)
        self.w2 = torch.nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(torch.nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.attention, self.feed_forward = Attention(dim, heads), FeedForward(dim, hidden)
        self.attention_norm, self.ffn_norm = torch.nn.RMSNorm(dim, eps=1e-5), torch.nn.RMSNorm(dim, eps=1e-5)

    def forward(self, x, rotation):
        h = x + self.attention(self.attention_norm(x), rotation)
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(torch.nn.Module):
    def __init__(self, dim, layers, heads, hidden, vocab, theta):
        super().__init__()
        self.tok_embeddings = torch.nn.Embedding(vocab, dim)
        self.layers = torch.nn.ModuleList(Block(dim, heads, hidden) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(dim, eps=1e-5)
        self.output = torch.nn.Linear(dim, vocab, bias=False)
        self.head_dim, self.theta = dim // heads, theta

    def rotation(self, length):
        frequency = 1.0 / self.theta ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim)
        # Llama 3.1: factor 8, low 1, high 4, original length 8192.
        wavelength = 2 * torch.pi / frequency
        smooth = (8192 / wavelength - 1) / (4 - 1)
        scaled = torch.where(wavelength > 8192, frequency / 8, frequency)
        between = (wavelength <= 8192) & (wavelength >= 2048)
        scaled = torch.where(between, (1 - smooth) * frequency / 8 + smooth * frequency, scaled)
        angles = torch.outer(torch.arange(length).float(), scaled)
        return torch.polar(torch.ones_like(angles), angles).unsqueeze(1)

    def forward(self, tokens, rotation):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, rotation)
        return self.output(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    for name in ("--weights", "--samples"):
        parser.add_argument(name, required=True)
    for name in ("--dim", "--layers", "--heads", "--hidden", "--vocab", "--warmup"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    model = Llama(a.dim, a.layers, a.heads, a.hidden, a.vocab, 500000.0)
    model.load_state_dict(load_file(a.weights))
    samples = torch.load(a.samples)
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    rotation = model.rotation(samples.shape[2] - 1)
    forward = torch.compile(model) if a.compile else model
    ends, losses = [], []
    for step, sample in enumerate(samples, 1):
        for group in optimizer.param_groups:
            group["lr"] = a.lr * min(1.0, step / a.warmup)
        inputs, labels = sample[:, :-1], sample[:, 1:]
        loss = F.cross_entropy(forward(inputs, rotation).flatten(0, 1).float(), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        ends.append(time.monotonic())
    print(json.dumps({"ends": ends, "losses": losses}))


if __name__ == "__main__":
    main()
