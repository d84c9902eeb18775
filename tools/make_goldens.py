#!/usr/bin/env python3
"""Writes tests/golden/<model>.{json,safetensors}: what plain PyTorch computes for tiny models.

The modules below are written from the formulas of the papers and share nothing with titan's sources.
Weights and tokens come from an integer hash that tests/models/golden_test.cpp computes too, so only
results are stored: logits and every gradient in float64, the loss and a ten-step training curve in
float64 and float32. The script checks itself against transformers' Llama and Qwen3 first.

    python3 tools/make_goldens.py [FOLDER]     needs torch, transformers and safetensors
"""
import json
import math
import pathlib
import sys

import torch
from safetensors.torch import save_file

MODELS = {
    # Llama 3: interleaved pairs, scaled frequencies (one kept, one in between, two divided), grouped heads.
    "llama3": dict(family="llama3", dim=24, num_layers=2, num_heads=3, num_kv_heads=1, head_dim=8,
                   hidden_dim=32, vocab_size=40, norm_eps=1e-5, rope_theta=10000.0, interleaved=True,
                   qk_norm=False, tied=False,
                   rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                     original_max_positions=128)),
    "llama2": dict(family="llama2", dim=16, num_layers=2, num_heads=2, num_kv_heads=2, head_dim=8,
                   hidden_dim=24, vocab_size=40, norm_eps=1e-5, rope_theta=10000.0, interleaved=True,
                   qk_norm=False, tied=False, rope_scaling=None),
    # Qwen3: halves, normalised queries and keys, heads * head_dim != dim, one weight for both ends.
    "qwen3": dict(family="qwen3", dim=16, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8,
                  hidden_dim=24, vocab_size=40, norm_eps=1e-6, rope_theta=1000000.0, interleaved=False,
                  qk_norm=True, tied=True, rope_scaling=None),
}
# Packed documents: attention stays inside each, positions restart; one starts in the last place of a sample.
MODELS["llama2_documents"] = dict(MODELS["llama2"], documents=[[0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 3],
                                                               [0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]])
BATCH, TIME, STEPS = 2, 12, 10
TRAINING = dict(lr=0.01, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, max_norm=0.5,
                warmup_steps=3, min_lr_factor=0.1)


def mix(index, salt):
    """A 32-bit hash of two small integers."""
    x = (index * 2654435761 + salt * 2246822519 + 374761393) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 2246822519) & 0xFFFFFFFF
    x ^= x >> 13
    x = (x * 3266489917) & 0xFFFFFFFF
    return x ^ (x >> 16)


def centred(index, salt):
    return mix(index, salt) / 2.0**32 - 0.5


def shapes(a):
    """Names and shapes in the order of a forward pass; the position is the salt of the values."""
    out = [("tok_embeddings.weight", (a["vocab_size"], a["dim"]))]
    q, kv = a["num_heads"] * a["head_dim"], a["num_kv_heads"] * a["head_dim"]
    for i in range(a["num_layers"]):
        p = f"layers.{i}."
        out += [(p + "attention.wq.weight", (q, a["dim"])), (p + "attention.wk.weight", (kv, a["dim"])),
                (p + "attention.wv.weight", (kv, a["dim"])), (p + "attention.wo.weight", (a["dim"], q))]
        if a["qk_norm"]:
            out += [(p + "attention.q_norm.weight", (a["head_dim"],)), (p + "attention.k_norm.weight", (a["head_dim"],))]
        out += [(p + "feed_forward.w1.weight", (a["hidden_dim"], a["dim"])),
                (p + "feed_forward.w2.weight", (a["dim"], a["hidden_dim"])),
                (p + "feed_forward.w3.weight", (a["hidden_dim"], a["dim"])),
                (p + "attention_norm.weight", (a["dim"],)), (p + "ffn_norm.weight", (a["dim"],))]
    out.append(("norm.weight", (a["dim"],)))
    if not a["tied"]:
        out.append(("output.weight", (a["vocab_size"], a["dim"])))
    return out


def weights(a, dtype):
    out = {}
    for salt, (name, shape) in enumerate(shapes(a)):
        count = math.prod(shape)
        if len(shape) == 1:
            values = [1 + 0.25 * centred(i, salt) for i in range(count)]
        else:
            values = [centred(i, salt) for i in range(count)]
        out[name] = torch.tensor(values, dtype=torch.float64).view(shape).to(dtype).requires_grad_()
    return out


def batch(a, step):
    """Inputs and labels [BATCH, TIME]; some labels are ignored, more of them in later steps."""
    ids = [[mix(b * (TIME + 1) + t, 1000 + step) % a["vocab_size"] for t in range(TIME + 1)] for b in range(BATCH)]
    labels = [[-100 if (b * TIME + t) % 11 < step % 4 else ids[b][t + 1] for t in range(TIME)] for b in range(BATCH)]
    return torch.tensor([row[:-1] for row in ids]), torch.tensor(labels)


def positions(a):
    """[BATCH or 1, TIME]: counted from the start of each document."""
    return torch.tensor([[t - row.index(row[t]) for t in range(TIME)] for row in a.get("documents", [[0] * TIME])])


def visible(a):
    """[BATCH or 1, 1, TIME, TIME]: which keys a query sees."""
    ids = torch.tensor(a.get("documents", [[0] * TIME]))
    return (ids[:, :, None] == ids[:, None, :]).tril()[:, None]


def rotation(a, dtype):
    """cos and sin [BATCH or 1, TIME, head_dim/2], angles computed in the given dtype."""
    d = a["head_dim"]
    f = 1.0 / a["rope_theta"] ** (torch.arange(0, d, 2, dtype=dtype) / d)
    s = a["rope_scaling"]
    if s:
        scaled = []
        for value in f:
            wavelength = 2 * math.pi / value
            if wavelength < s["original_max_positions"] / s["high_freq_factor"]:
                scaled.append(value)
            elif wavelength > s["original_max_positions"] / s["low_freq_factor"]:
                scaled.append(value / s["factor"])
            else:
                smooth = (s["original_max_positions"] / wavelength - s["low_freq_factor"]) / (
                    s["high_freq_factor"] - s["low_freq_factor"])
                scaled.append((1 - smooth) * value / s["factor"] + smooth * value)
        f = torch.stack(scaled)
    angles = positions(a).to(dtype)[:, :, None] * f
    return angles.cos(), angles.sin()


def normalise(x, weight, eps):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotate(x, cos, sin, interleaved):
    """x [B, T, H, D]."""
    cos, sin = cos[:, :, None, :], sin[:, :, None, :]
    if interleaved:
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).reshape(x.shape)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def attend(a, w, p, x, tables):
    b, t, _ = x.shape
    q = (x @ w[p + "wq.weight"].T).view(b, t, a["num_heads"], a["head_dim"])
    k = (x @ w[p + "wk.weight"].T).view(b, t, a["num_kv_heads"], a["head_dim"])
    v = (x @ w[p + "wv.weight"].T).view(b, t, a["num_kv_heads"], a["head_dim"])
    if a["qk_norm"]:
        q = normalise(q, w[p + "q_norm.weight"], a["norm_eps"])
        k = normalise(k, w[p + "k_norm.weight"], a["norm_eps"])
    q, k = rotate(q, *tables, a["interleaved"]), rotate(k, *tables, a["interleaved"])
    group = a["num_heads"] // a["num_kv_heads"]
    k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(a["head_dim"])
    probabilities = scores.masked_fill(~visible(a), -math.inf).softmax(-1)
    seen = torch.einsum("bhij,bjhd->bihd", probabilities, v)
    theirs = torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                                              attn_mask=visible(a)).transpose(1, 2)
    torch.testing.assert_close(seen, theirs)
    return seen.reshape(b, t, -1) @ w[p + "wo.weight"].T


def forward(a, w, tokens, tables):
    x = w["tok_embeddings.weight"][tokens]
    for i in range(a["num_layers"]):
        p = f"layers.{i}."
        x = x + attend(a, w, p + "attention.", normalise(x, w[p + "attention_norm.weight"], a["norm_eps"]), tables)
        h = normalise(x, w[p + "ffn_norm.weight"], a["norm_eps"])
        gate, up = h @ w[p + "feed_forward.w1.weight"].T, h @ w[p + "feed_forward.w3.weight"].T
        x = x + (gate * torch.sigmoid(gate) * up) @ w[p + "feed_forward.w2.weight"].T
    x = normalise(x, w["norm.weight"], a["norm_eps"])
    return x @ w["tok_embeddings.weight" if a["tied"] else "output.weight"].T


def loss_of(logits, labels):
    flat, labels = logits.flatten(0, 1), labels.flatten()
    return torch.nn.functional.cross_entropy(flat, labels, ignore_index=-100, reduction="sum") / (labels != -100).sum()


def lr_factor(step):
    """Warm-up, then a cosine to the floor; step counts from 1."""
    warmup, floor = TRAINING["warmup_steps"], TRAINING["min_lr_factor"]
    if step <= warmup:
        return step / warmup
    decay = STEPS - warmup
    progress = max(0, step - warmup - 1) / decay
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))


def curve(a, dtype):
    w = weights(a, dtype)
    t = TRAINING
    optimizer = torch.optim.AdamW(list(w.values()), lr=t["lr"], betas=(t["beta1"], t["beta2"]), eps=t["eps"],
                                  weight_decay=t["weight_decay"], fused=True)
    tables = rotation(a, dtype)
    rows = []
    for step in range(1, STEPS + 1):
        tokens, labels = batch(a, step)
        loss = loss_of(forward(a, w, tokens, tables), labels)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(w.values()), t["max_norm"])
        assert norm > t["max_norm"], "clipping must bite"
        optimizer.param_groups[0]["lr"] = t["lr"] * lr_factor(step)
        optimizer.step()
        rows.append(dict(loss=loss.item(), grad_norm=norm.item(), lr=t["lr"] * lr_factor(step)))
    return rows


def hf_reorder(a, tensor):
    """Rows of a query or key projection from interleaved pairs to halves."""
    heads = tensor.shape[0] // a["head_dim"]
    return tensor.view(heads, a["head_dim"] // 2, 2, -1).transpose(1, 2).reshape(tensor.shape)


def check_against_transformers(a):
    """The modules above are an independent reading of the formulas; this is a second one."""
    import transformers

    common = dict(vocab_size=a["vocab_size"], hidden_size=a["dim"], intermediate_size=a["hidden_dim"],
                  num_hidden_layers=a["num_layers"], num_attention_heads=a["num_heads"],
                  num_key_value_heads=a["num_kv_heads"], head_dim=a["head_dim"], rms_norm_eps=a["norm_eps"],
                  tie_word_embeddings=a["tied"], max_position_embeddings=256, attn_implementation="eager")
    rope = dict(rope_type="default")
    if a["rope_scaling"]:
        s = a["rope_scaling"]
        rope = dict(rope_type="llama3", factor=s["factor"], low_freq_factor=s["low_freq_factor"],
                    high_freq_factor=s["high_freq_factor"],
                    original_max_position_embeddings=s["original_max_positions"])
    if int(transformers.__version__.split(".")[0]) >= 5:
        common["rope_parameters"] = dict(rope, rope_theta=a["rope_theta"])
    else:
        common.update(rope_theta=a["rope_theta"], rope_scaling=rope if a["rope_scaling"] else None)
    if a["family"] == "qwen3":
        model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**common))
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**common))
    model = model.double()
    w = weights(a, torch.float64)
    state = {}
    for name, tensor in w.items():
        tensor = tensor.detach()
        if a["interleaved"] and name.endswith(("wq.weight", "wk.weight")):
            tensor = hf_reorder(a, tensor)
        for ours, theirs in [("tok_embeddings", "model.embed_tokens"), ("layers.", "model.layers."),
                             ("attention.w", "self_attn.w"), ("attention.q_norm", "self_attn.q_norm"),
                             ("attention.k_norm", "self_attn.k_norm"), (".wq.", ".q_proj."), (".wk.", ".k_proj."),
                             (".wv.", ".v_proj."), (".wo.", ".o_proj."), ("feed_forward.w1", "mlp.gate_proj"),
                             ("feed_forward.w2", "mlp.down_proj"), ("feed_forward.w3", "mlp.up_proj"),
                             ("attention_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm"),
                             ("output.", "lm_head.")]:
            name = name.replace(ours, theirs)
        state["model.norm.weight" if name == "norm.weight" else name] = tensor
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    tokens, _ = batch(a, 0)
    with torch.no_grad():
        hidden = torch.zeros(visible(a).shape, dtype=torch.float64).masked_fill(~visible(a), -1e300)
        theirs = model(tokens, attention_mask=hidden.expand(BATCH, -1, -1, -1),
                       position_ids=positions(a).expand(BATCH, -1)).logits
        ours = forward(a, w, tokens, rotation(a, torch.float64))
    worst = ((theirs - ours).abs().max() / ours.abs().max()).item()
    # transformers computes the angles in float32.
    assert worst < 2e-6, f"logits differ from transformers by {worst}"
    return worst


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/golden")
    for name, a in MODELS.items():
        print(f"{name}: logits equal transformers' to {check_against_transformers(a):.1e} of the largest")
        w = weights(a, torch.float64)
        tokens, labels = batch(a, 1)
        logits = forward(a, w, tokens, rotation(a, torch.float64))
        loss = loss_of(logits, labels)
        loss.backward()
        tensors = {"gradient." + key: value.grad.contiguous() for key, value in w.items()}
        tensors["logits"] = logits.detach().contiguous()
        save_file(tensors, folder / f"{name}.safetensors")
        w32 = weights(a, torch.float32)
        loss32 = loss_of(forward(a, w32, tokens, rotation(a, torch.float32)), labels)
        facts = dict(args=a, training=TRAINING, batch=BATCH, time=TIME, steps=STEPS, loss_float64=loss.item(),
                     loss_float32=loss32.item(), curve_float64=curve(a, torch.float64),
                     curve_float32=curve(a, torch.float32))
        (folder / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
