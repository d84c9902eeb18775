"""Writes tests/golden/pipeline_schedules.txt: the compute order of PyTorch's pipeline schedules.

  python tools/make_pipeline_goldens.py > tests/golden/pipeline_schedules.txt      (PyTorch 2.9 or newer, CPU)

One line per case: NAME ranks stages-per-rank micro-batches, then either the lists (ranks separated by " / ") or
"hash=" and the FNV-1a hash of that text, or "refused" where PyTorch does not take the numbers. GPipe and 1F1B are
recorded while PyTorch runs them with a stage that computes nothing; for the others PyTorch has lists.
"""
import sys

import torch
from torch.distributed.pipelining import schedules

SINGLE = ["GPipe", "1F1B"]
LOOPED = ["Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"]
V_SHAPED = ["ZBVZeroBubble", "DualPipeV"]


class RecordingStage:
    """Stands for a stage: notes what the schedule asks it to compute."""

    def __init__(self, index, num_stages):
        self.stage_index, self.num_stages = index, num_stages
        self.group_rank, self.group_size = index, num_stages
        self.is_first, self.is_last, self.has_backward = index == 0, index == num_stages - 1, True
        self.submod = torch.nn.Identity()
        self.asked = []

    def forward_one_chunk(self, microbatch, *args, **kwargs):
        self.asked.append(f"{self.stage_index}F{microbatch}")

    def backward_one_chunk(self, microbatch, **kwargs):
        self.asked.append(f"{self.stage_index}B{microbatch}")

    def no_messages(self, microbatch):
        return []

    get_fwd_recv_ops = get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = no_messages

    def perform_reduce_grad(self, scale):
        pass


def run_single(name, num_ranks, num_microbatches):
    lists = []
    for rank in range(num_ranks):
        stage = RecordingStage(rank, num_ranks)
        schedule = schedules.get_schedule_class(name)(stage, num_microbatches, loss_fn=None)
        schedule._initialize_stage = lambda *args: None
        schedule._step_microbatches([()] * num_microbatches, [{}] * num_microbatches)
        lists.append(stage.asked)
    return lists


def flat(action):
    return [text for part in action.sub_actions for text in flat(part)] if action.sub_actions else [str(action)]


def lists_of_multi(name, num_ranks, stages_per_rank, num_microbatches):
    stages = []
    for k in range(stages_per_rank):
        stage = RecordingStage(k * num_ranks, num_ranks * stages_per_rank)
        stage.group_rank, stage.group_size = 0, num_ranks
        stage.stage_index_to_group_rank = {i: i % num_ranks for i in range(num_ranks * stages_per_rank)}
        stages.append(stage)
    schedule = schedules.get_schedule_class(name)(stages, num_microbatches, loss_fn=lambda output, target: output)
    order = schedule.pipeline_order
    return [[text for action in order[rank] if action is not None for text in flat(action)]
            for rank in range(num_ranks)]


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def case(name, num_ranks, stages_per_rank, num_microbatches, whole):
    head = f"{name} {num_ranks} {stages_per_rank} {num_microbatches}"
    try:
        if name in SINGLE:
            lists = run_single(name, num_ranks, num_microbatches)
        else:
            lists = lists_of_multi(name, num_ranks, stages_per_rank, num_microbatches)
    except ValueError:
        return f"{head} refused"
    text = " / ".join(" ".join(actions) for actions in lists)
    return f"{head} {text}" if whole else f"{head} hash={fnv1a(text):016x}"


def main():
    print(f"# made by tools/make_pipeline_goldens.py with PyTorch {torch.__version__.split('+')[0]}")
    for name in SINGLE + LOOPED + V_SHAPED:
        for num_ranks in (1, 2, 3, 4, 5, 6, 8, 16):
            for stages_per_rank in [1] if name in SINGLE else [2] if name in V_SHAPED else [1, 2, 3]:
                counts = {1, 2, 3, num_ranks - 1, num_ranks, num_ranks + 1, 2 * num_ranks - 1, 2 * num_ranks,
                          2 * num_ranks + 1, 2 * num_ranks + 2, 3 * num_ranks, 4 * num_ranks + 3, 6 * num_ranks}
                for num_microbatches in sorted(counts - {0}):
                    whole = num_ranks in (2, 3) and stages_per_rank < 3 and num_microbatches <= 2 * num_ranks + 1
                    print(case(name, num_ranks, stages_per_rank, num_microbatches, whole))


if __name__ == "__main__":
    sys.exit(main())
