#!/usr/bin/env python3
"""Every operator of the emulator stands in a test of this folder by name, and every name the adapter may call has an entry.
   coverage_test.py LIBOPAPI LIBTORCH_NPU SOURCE_FOLDER"""
import pathlib
import re
import subprocess
import sys

# Not reached through the adapter of this version on either chip: called for other versions of CANN or torch, or under capture.
NOT_CALLED = """
ForeachAddScalar ForeachSubScalar ForeachMulScalar ForeachDivScalar ForeachPowScalar ForeachMaximumScalar ForeachMinimumScalar
ForeachAddcmulScalar ForeachAddcdivScalar ForeachAddcmulScalarList ForeachAddcdivScalarList ForeachMaximumScalarList
ForeachMinimumScalarList ForeachPowScalarList ForeachPowList ForeachSign DynamicMxQuant MatmulReduceScatterV2
AllGatherMatmulV2 RotaryPositionEmbedding FlashAttentionVarLenScoreV4 FlashAttentionUnpaddingScoreGradV4
FlashAttentionScoreV2 FlashAttentionScoreGradV2 FlashAttentionVarLenScoreV2 InplaceNormalTensor InplaceUniformTensor NonzeroV2
""".split()


def defined(library):
    """(name, is an entry of its own) of each operator in the library; the others are the loud generated ones."""
    text = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        _, kind, name = line.split()[:3]
        if re.fullmatch(r"aclnn[A-Z]\w*", name) and not name.endswith("GetWorkspaceSize"):
            yield name, kind == "i"


def main():
    library, adapter, folder = sys.argv[1:]
    names = dict(defined(library))
    tests = "\n".join(path.read_text() for path in pathlib.Path(folder).glob("*.cpp"))
    tested = set(re.findall(r"aclnn[A-Z]\w*", tests)) | {"aclnn" + name for name in NOT_CALLED}
    untested = sorted(name for name, own in names.items() if own and name not in tested)
    wanted = {word.decode() for word in re.findall(rb"aclnn[A-Z][A-Za-z0-9]+(?=\0)", pathlib.Path(adapter).read_bytes())}
    missing = sorted(name for name in wanted if not name.endswith("GetWorkspaceSize") and name not in names)
    strange = sorted(name for name, own in names.items() if own and name not in wanted)
    print(f"{sum(names.values())} operators emulated, {len(names) - sum(names.values())} refused by name")
    for what, which in (("without a test", untested), ("without an entry", missing), ("never called by the adapter", strange)):
        if which:
            print(f"{what}: {' '.join(which)}")
    return 1 if untested or missing or strange else 0


if __name__ == "__main__":
    sys.exit(main())
