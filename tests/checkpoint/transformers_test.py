"""Hugging Face folders in and out, against the transformers package: transformers_test.py BINARY

For random Llama and Qwen3 models (tied and not, bf16 and fp32, sharded): what titan imports is readable by the safetensors
package under plain names and gives transformers' logits in a plain reference of the architecture (rotation of
neighbouring pairs for Llama); what titan exports gives the same logits, bit for bit, in AutoModelForCausalLM.
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

SIZES = dict(vocab_size=60, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=128, attn_implementation="eager")
SCALED = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
CASES = {
    "llama2": (LlamaConfig(**SIZES, rms_norm_eps=1e-5), torch.float32, "5GB"),
    "llama3": (LlamaConfig(**SIZES, rms_norm_eps=1e-5, rope_parameters=SCALED, bos_token_id=3, eos_token_id=[4, 5]),
               torch.bfloat16, "30KB"),
    "llama3 tied": (LlamaConfig(**SIZES, rope_parameters=SCALED, tie_word_embeddings=True), torch.float32, "30KB"),
    "llama wide heads": (LlamaConfig(**SIZES, head_dim=16), torch.float16, "5GB"),
    "qwen3": (Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=False), torch.float32, "30KB"),
    "qwen3 tied": (Qwen3Config(**SIZES, head_dim=16, rope_theta=1e6, tie_word_embeddings=True), torch.bfloat16, "5GB"),
}


def titan(binary, *words, code=0):
    done = subprocess.run([binary, "checkpoint", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def inverse_frequencies(args):
    inverse = args["rope_theta"] ** -(torch.arange(0, args["head_dim"], 2).float() / args["head_dim"])
    scaling = args["rope_scaling"]
    if not scaling:
        return inverse
    wavelength = 2 * torch.pi / inverse
    original, low, high = scaling["original_max_positions"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    smooth = (original / wavelength - low) / (high - low)
    between = (1 - smooth) * inverse / scaling["factor"] + smooth * inverse
    scaled = torch.where(wavelength > original / low, inverse / scaling["factor"], between)
    return torch.where(wavelength < original / high, inverse, scaled)


def rotate(x, args):  # x: [batch, heads, positions, head_dim]
    angles = torch.outer(torch.arange(x.shape[2]).float(), inverse_frequencies(args))
    cos, sin = angles.cos(), angles.sin()
    if args["rope_style"] == "interleaved":
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def reference_logits(args, weights, ids):
    def norm(x, weight):
        return F.rms_norm(x, x.shape[-1:], weight, args["norm_eps"])

    def heads(x, count):
        return x.unflatten(-1, (count, args["head_dim"])).transpose(1, 2)

    x = weights["tok_embeddings.weight"][ids]
    for n in range(args["num_layers"]):
        layer = {k.removeprefix(f"layers.{n}."): v for k, v in weights.items() if k.startswith(f"layers.{n}.")}
        y = norm(x, layer["attention_norm.weight"])
        q = heads(y @ layer["attention.wq.weight"].T, args["num_heads"])
        k = heads(y @ layer["attention.wk.weight"].T, args["num_kv_heads"])
        v = heads(y @ layer["attention.wv.weight"].T, args["num_kv_heads"])
        if args["qk_norm"]:
            q, k = norm(q, layer["attention.q_norm.weight"]), norm(k, layer["attention.k_norm.weight"])
        attended = F.scaled_dot_product_attention(rotate(q, args), rotate(k, args), v, is_causal=True, enable_gqa=True)
        x = x + attended.transpose(1, 2).flatten(-2) @ layer["attention.wo.weight"].T
        y = norm(x, layer["ffn_norm.weight"])
        y = F.silu(y @ layer["feed_forward.w1.weight"].T) * (y @ layer["feed_forward.w3.weight"].T)
        x = x + y @ layer["feed_forward.w2.weight"].T
    head = weights["tok_embeddings.weight" if args["tied"] else "output.weight"]
    return norm(x, weights["norm.weight"]) @ head.T


def check(binary, name, config, dtype, shard, folder):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((torch.randn_like(parameter) * 0.2 + (1.0 if parameter.dim() == 1 else 0.0)).to(dtype))
    source, imported, exported = folder / "hf", folder / "titan", folder / "out"
    # A copy, because .to() would round the rotary table of this model too.
    copy.deepcopy(model).to(dtype).save_pretrained(source, max_shard_size=shard)
    (source / "tokenizer.json").write_text('{"of": "this model"}')
    ids = torch.randint(0, config.vocab_size, (2, 50))
    with torch.no_grad():
        expected = model(ids).logits

    titan(binary, "import", source, imported)
    step = imported / "step-0"
    weights = {}
    for file in step.glob("model-*.safetensors"):
        weights |= load_file(file)
    assert all(tensor.dtype == dtype for tensor in weights.values())
    args = json.loads((step / "index.json").read_text())["state"]["model_args"]
    found = reference_logits(args, {k: v.float() for k, v in weights.items()}, ids)
    error = (found - expected).abs().max().item() / expected.abs().max().item()
    assert error < 2e-5, (name, error)

    assert "equal their checksums" in titan(binary, "verify", step)
    titan(binary, "export", imported, exported, "--max-file-gib", "0.00003")
    assert AutoModelForCausalLM.from_pretrained(exported).dtype == dtype
    loaded = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, expected), name
    assert len(list(exported.glob("model-*.safetensors"))) > 1
    assert (exported / "tokenizer.json").read_text() == '{"of": "this model"}'
    for key in ("bos_token_id", "eos_token_id", "tie_word_embeddings", "rms_norm_eps", "max_position_embeddings"):
        assert getattr(loaded.config, key) == getattr(config, key), key
    titan(binary, "export", imported, exported, code=2)  # never over something

    wide = folder / "wide"
    titan(binary, "export", imported, wide, "--dtype", "float32", "--assets", folder)
    with torch.no_grad():
        assert torch.equal(AutoModelForCausalLM.from_pretrained(wide, attn_implementation="eager")(ids).logits, expected)
    print(f"{name}: reference differs by {error:.1e}, export bit-equal")


def main(binary):
    for name, (config, dtype, shard) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            check(binary, name, config, dtype, shard, pathlib.Path(folder))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1])
