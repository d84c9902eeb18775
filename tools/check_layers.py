"""Fails when a file of src/ includes a header of an area that its own area may not use.

The table is the one in docs/architecture.md: an area may use the listed areas and whatever those may use.
"""
import pathlib
import re
import sys

MAY_USE = {
    "base": "", "config": "base", "device": "base", "comm": "device", "ops": "device", "nn": "ops comm",
    "models": "nn config", "parallel": "nn comm config", "optim": "comm ops config", "data": "config",
    "checkpoint": "comm config", "observe": "comm config",
    "train": "models parallel optim data checkpoint observe", "generate": "models data checkpoint",
    "launch": "config comm", "cli": "train generate launch",
}
VENDOR_HEADERS = re.compile(r'#\s*include\s*[<"](cuda|cublas|cudnn|nccl|c10/cuda|ATen/cuda|acl/|torch_npu|hccl)')
CONDITIONALS = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")
CONDITIONALS_ALLOWED = ("device/", "base/platform")


def reachable(area, seen=None):
    seen = set() if seen is None else seen
    for used in MAY_USE[area].split():
        if used not in seen:
            seen.add(used)
            reachable(used, seen)
    return seen


def main(root):
    problems = []
    files = [p for p in root.rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh"}]
    for path in sorted(files):
        relative = path.relative_to(root).as_posix()
        area = relative.split("/")[0]
        if area not in MAY_USE:
            problems.append(f"{relative}: folder {area} is not in the table of areas")
            continue
        allowed = reachable(area) | {area}
        in_vendor_folder = re.match(r"device/(cuda|npu)/", relative)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            included = re.match(r'\s*#include "(\w+)/', line)
            if included and included[1] in MAY_USE and included[1] not in allowed:
                problems.append(f"{relative}:{number}: {area} may not include {included[1]}")
            if VENDOR_HEADERS.match(line) and not in_vendor_folder:
                problems.append(f"{relative}:{number}: vendor headers belong in device/<vendor>/")
            if CONDITIONALS.match(line) and not relative.startswith(CONDITIONALS_ALLOWED):
                problems.append(f"{relative}:{number}: preprocessor conditionals belong in device/ or base/platform")
    print("\n".join(problems) if problems else f"{len(files)} files respect the layers")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
