"""The Python side of bench/npu_host_time.py: the same Llama written with torch_npu's fused operators, trained step by step with
clipping and fused AdamW. Prints one JSON object: for each step the host's CPU time in ns and the number of launched operators.

    npu_llama.py LAYERS TOKENS STEPS
"""
import ctypes
import json
import os
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
import torch_npu

DIM, HEADS, KV_HEADS, HIDDEN, VOCAB = 256, 16, 16, 768, 2048


def host_ns():
    """Nanoseconds that the threads which launch work have run: the main one and autograd's."""
    total = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        if task.name == str(os.getpid()) or (task / "comm").read_text().startswith("pt_autograd"):
            total += time.clock_gettime_ns((~int(task.name) << 3) | 6)  # the kernel's number of a thread's CPU clock
    return total


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        return torch_npu.npu_rms_norm(x, self.weight, 1e-5)[0]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda a, b: torch.nn.Linear(a, b, bias=False)  # noqa: E731
        head = DIM // HEADS
        self.wq, self.wk, self.wv = linear(DIM, DIM), linear(DIM, KV_HEADS * head), linear(DIM, KV_HEADS * head)
        self.wo, self.w1, self.w3, self.w2 = linear(DIM, DIM), linear(DIM, HIDDEN), linear(DIM, HIDDEN), linear(HIDDEN, DIM)
        self.attention_norm, self.ffn_norm = Norm(), Norm()

    def forward(self, x, cos, sin, mask):
        b, t, _ = x.shape
        y = self.attention_norm(x)
        q, k, v = (w(y).view(b, t, -1, DIM // HEADS) for w in (self.wq, self.wk, self.wv))
        q, k = (torch_npu.npu_rotary_mul(z, cos, sin, "interleave") for z in (q, k))
        y = torch_npu.npu_fusion_attention_v2(q, k, v, HEADS, "BSND", atten_mask=mask, scale=(DIM // HEADS) ** -0.5,
                                              sparse_mode=2)[0]
        x = x + self.wo(y.view(b, t, -1))
        y = self.ffn_norm(x)
        return x + self.w2(torch_npu.npu_swiglu(torch.cat((self.w1(y), self.w3(y)), -1)))


class Llama(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, DIM)
        self.layers = torch.nn.ModuleList(Block() for _ in range(layers))
        self.norm = Norm()
        self.output = torch.nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens, cos, sin, mask):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.output(self.norm(x))


def main():
    layers, length, steps = map(int, sys.argv[1:4])
    launched = ctypes.CDLL("libascendcl.so").cannemu_count_prefix
    launched.restype, launched.argtypes = ctypes.c_uint64, [ctypes.c_char_p]
    torch.manual_seed(1)
    model = Llama(layers).npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    table = torch.ones(1, length, 1, DIM // HEADS).npu()
    mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()
    tokens = torch.zeros(1, length, dtype=torch.long).npu()
    result = []
    for _ in range(steps):
        torch.npu.synchronize()
        begin, before = host_ns(), launched(b"aclnn")
        logits = model(tokens, table, table, mask)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end = host_ns()
        torch.npu.synchronize()
        result.append((end - begin, launched(b"aclnn") - before))
    print(json.dumps({"steps": result}))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
