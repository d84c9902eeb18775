"""Makes the small Hugging Face models of tests/golden/hf/: random weights, config.json and the logits that transformers
computes for them. Run it with an interpreter that has torch, transformers and safetensors:

    python tools/make_hf_goldens.py tests/golden/hf

The files are committed; a change of them needs a reason (STYLE 22).
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

SIZES = dict(vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, attn_implementation="eager")
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=16)
MODELS = {
    "llama3": (LlamaConfig(**SIZES, rms_norm_eps=1e-5, rope_parameters=LLAMA3_ROPE, tie_word_embeddings=False), torch.bfloat16),
    "llama32_tied": (LlamaConfig(**SIZES, rms_norm_eps=1e-5, head_dim=8, rope_parameters=LLAMA3_ROPE,
                                 tie_word_embeddings=True), torch.float32),
    "qwen3": (Qwen3Config(**SIZES, head_dim=16, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=False), torch.float32),
    "qwen3_tied": (Qwen3Config(**SIZES, head_dim=16, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True),
                   torch.bfloat16),
}


def main(folder):
    for name, (config, dtype) in MODELS.items():
        torch.manual_seed(len(name))
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter in model.parameters():
                # Wide enough that a wrong pairing of dims or a missing norm weight shows in the logits.
                values = torch.randn_like(parameter) * 0.3 + (1.0 if parameter.dim() == 1 else 0.0)
                parameter.copy_(values.to(dtype))
            model.eval()
            ids = torch.randint(0, config.vocab_size, (2, 24))
            logits = model(ids).logits
        target = folder / name
        # The logits above are in fp32: .to() rounds the rotary table too. Sharded, so that the index is read too.
        model.to(dtype).save_pretrained(target, max_shard_size="20KB")
        (target / "generation_config.json").unlink(missing_ok=True)
        save_file({"ids": ids, "logits": logits}, target / "expected.safetensors")
        written = json.loads((target / "config.json").read_text())
        print(name, written["architectures"], sum(p.numel() for p in model.parameters()), "parameters")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
