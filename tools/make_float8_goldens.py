#!/usr/bin/env python3
"""Writes tests/golden/float8.safetensors: linear layers in float8 by torchao's emulation on a CPU.

Inputs come from the hash of make_goldens.py, which tests/ops/float8_test.cpp computes too; rows and columns differ in
magnitude, so that each scale shows. Stored for each recipe: output, input gradient, weight gradient.

    python3 tools/make_float8_goldens.py [FOLDER]     needs torch, torchao and safetensors
"""
import dataclasses
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torchao.float8 import Float8LinearConfig
from torchao.float8.float8_linear import Float8Linear

from make_goldens import centred

TOKENS, IN, OUT = 32, 48, 16


def matrix(rows, columns, salt):
    values = [[centred(r * columns + c, salt) * 2.0 ** (r % 5 - c % 3) for c in range(columns)] for r in range(rows)]
    return torch.tensor(values, dtype=torch.float32)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1] / "tests/golden")
    tensors = {}
    for recipe in ("tensorwise", "rowwise", "rowwise_with_gw_hp"):
        config = dataclasses.replace(Float8LinearConfig.from_recipe_name(recipe), emulate=True)
        linear = torch.nn.Linear(IN, OUT, bias=False)
        linear.weight.data = matrix(OUT, IN, 2)
        layer = Float8Linear.from_float(linear, config=config)
        x = matrix(TOKENS, IN, 1).requires_grad_()
        y = layer(x)
        y.backward(matrix(TOKENS, OUT, 3))
        tensors |= {f"{recipe}.y": y.detach(), f"{recipe}.dx": x.grad, f"{recipe}.dw": layer.weight.grad}
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "float8.safetensors")


if __name__ == "__main__":
    main()
