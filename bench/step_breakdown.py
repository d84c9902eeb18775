"""Where a step's time goes on a GPU: sums a titan trace ([profiling] enable_profiling) by kind of kernel.
    python3 bench/step_breakdown.py TRACE.json [--kernels N]      N: also the N kernels that take longest (default 15)
Times are of all steps that the trace holds, divided by their number; kernels that run at once count each for itself.
"""
import argparse
import collections
import json
import re

KINDS = (("attention", r"cudnn.*(sdpa|mha|fprop|bprop|attention)|fmha|flash"),
         ("matrix product", r"gemm|cutlass.*(tensorop|sm90)|nvjet|xmma|splitK"),
         ("optimizer", r"adam|multi_tensor|lpnorm|foreach"),
         ("cross-entropy", r"cross_entropy|softmax|nll"),
         ("SwiGLU", r"swiglu|silu"),
         ("norm", r"norm_(forward|backward)|sum_columns|rms_norm|layer_norm"),
         ("rotation", r"rotate"),
         ("embedding", r"embedding|index|sort|radix|scan"),
         ("communication", r"nccl"),
         ("copy and cast", r"copy|memcpy|cast"),
         ("set to zero", r"memset|fill"))


def kind_of(name):
    for kind, pattern in KINDS:
        if re.search(pattern, name, re.IGNORECASE):
            return kind
    return "other"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--kernels", type=int, default=15)
    arguments = parser.parse_args()
    events = json.load(open(arguments.trace))["traceEvents"]
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    # A step that began before the trace did has no range of the host, but one of the device.
    steps = max(1, *(sum(1 for e in events if e.get("name") == "optimizer" and e.get("cat") == kind)
                     for kind in ("user_annotation", "gpu_user_annotation")))
    if not device:
        raise SystemExit("[breakdown] the trace holds no work of a GPU")
    by_kind, by_name = collections.Counter(), collections.defaultdict(lambda: [0, 0])
    for event in device:
        by_kind[kind_of(event["name"])] += event["dur"]
        row = by_name[event["name"]]
        row[0] += event["dur"]
        row[1] += 1
    total = sum(by_kind.values())
    begin = min(e["ts"] for e in device)
    end = max(e["ts"] + e["dur"] for e in device)
    print(f"{steps} steps, per step: {total / steps / 1000:.2f} ms of kernels in {(end - begin) / steps / 1000:.2f} ms, "
          f"{len(device) / steps:.0f} launches")
    for kind, time in by_kind.most_common():
        print(f"  {kind:16} {time / steps / 1000:9.3f} ms  {100 * time / total:5.1f} %")
    print("kernels that take longest:")
    for name, (time, count) in sorted(by_name.items(), key=lambda item: -item[1][0])[:arguments.kernels]:
        print(f"  {time / steps / 1000:9.3f} ms  {count / steps:7.1f} x  {name[:110]}")


if __name__ == "__main__":
    main()
