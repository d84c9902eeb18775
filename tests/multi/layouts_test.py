#!/usr/bin/env python3
"""Every layout as real processes equals one process: loss, gradient norm, validation loss, number of steps.

    layouts_test.py PATH_OF_TITAN [unittest arguments]

One process makes the same global batch in one piece; the layout accumulates it, clips, and runs with tied weights and
recomputation. Each test also changes something that it must notice.
"""
import unittest

from jobs import Jobs, gap, layout, words

ONE = layout()
FLOAT64 = {"training.dtype": "float64", "training.mixed_precision_param": "float64"}
TIED = {"model.name": "qwen3", "model.args.head_dim": 6, "model.args.tied": True, "activation_checkpoint.mode": "selective",
        "activation_checkpoint.selective_ac_option": "op"}
# Stages take a local batch as micro-batches of one sequence.
PIPELINE = {"training.local_batch_size": 4, "parallelism.pipeline_parallel_schedule": "1F1B"}
ZERO_BUBBLE = {**PIPELINE, "parallelism.pipeline_parallel_schedule": "InterleavedZeroBubble"}

# What a layout must not be equal to: each is one setting away.
MUTATIONS = {
    "no clipping": {"training.max_norm": 1e9},
    "another seed": {"debug.seed": 8},
    "another global batch": {"training.global_batch_size": 16},
    "another rate": {"optimizer.lr": 0.0050001},
}


class Layouts(Jobs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.references = {}

    def reference(self, keys):
        """The folder of one process that takes each global batch whole, without recomputation."""
        key = repr(sorted(keys.items()))
        if key not in self.references:
            whole = {**keys, "activation_checkpoint.mode": "none", "training.local_batch_size": 8}
            whole = {k: v for k, v in whole.items() if not k.startswith("parallelism.") and k != "npu.zero_stage"}
            self.references[key] = self.train(ONE, whole)
        return self.references[key]

    def gaps(self, one, other, keys=("loss", "grad_norm")):
        return {key: gap(self.series(one, key), self.series(other, key)) for key in keys}

    def equal(self, mesh, keys, loss=1e-11, norm=1e-11, own=None, more=()):
        """`keys` hold for both, `own` for the layout alone."""
        one, other = self.reference(keys), self.train(mesh, {**keys, **(own or {})})
        found = self.gaps(one, other, ("loss", "grad_norm", *more))
        for key, value in found.items():
            self.assertLessEqual(value, norm if key == "grad_norm" else loss, f"{key} of {mesh} {own}: {found}")
        # Clipping bites in every step, or it would not be tested.
        self.assertGreater(min(self.series(one, "grad_norm")), 0.3)
        return one, other

    def notices(self, name, mesh, keys, own=None, loss=1e-11):
        other = self.train(mesh, {**keys, **(own or {}), **MUTATIONS[name]})
        self.assertGreater(self.gaps(self.reference(keys), other)["loss"], loss, f"{name} went unnoticed by {mesh}")

    # ---- each axis alone

    def test_replicas(self):
        for model in ({}, TIED):
            self.equal(layout(replicate=2), {**FLOAT64, **model})
        self.notices("no clipping", layout(replicate=2), {**FLOAT64, **TIED})
        self.notices("another rate", layout(replicate=2), {**FLOAT64, **TIED})

    def test_shards_by_every_policy(self):
        keys = {**FLOAT64, **TIED}
        for policy in ("always", "never"):
            self.equal(layout(shard=2), keys, own={"parallelism.fsdp_reshard_after_forward": policy})
        for stage in (1, 2, 3):
            self.equal(layout(shard=2), keys, own={"npu.zero_stage": stage})
        self.equal(layout(shard=2), FLOAT64)
        self.notices("another seed", layout(shard=2), keys, own={"npu.zero_stage": 2})

    def test_tensor_parallel(self):
        for model in ({}, TIED):
            self.equal(layout(tp=2), {**FLOAT64, **model})
        # More ranks than key/value heads: those are held twice.
        self.equal(layout(tp=4), {**FLOAT64, **TIED})
        self.notices("another global batch", layout(tp=2), {**FLOAT64, **TIED})

    def test_context_parallel_by_every_method(self):
        keys = {**FLOAT64, **TIED}
        for method in ("allgather", "alltoall", "ulysses"):
            for balancer in ("headtail", "None"):
                self.equal(layout(cp=2), keys, own={"parallelism.context_parallel_rotate_method": method,
                                                    "parallelism.context_parallel_load_balancer": balancer})
        self.notices("another rate", layout(cp=2), keys, own={"parallelism.context_parallel_rotate_method": "alltoall"})

    def test_pipelines(self):
        for own in (PIPELINE, ZERO_BUBBLE):
            for model in ({}, TIED):
                self.equal(layout(pp=2), {**FLOAT64, **model}, own=own)
        self.notices("no clipping", layout(pp=2), {**FLOAT64, **TIED}, own=ZERO_BUBBLE)

    # ---- mixes

    def test_pairs(self):
        keys = {**FLOAT64, **TIED}
        for mesh in (layout(replicate=2, shard=2), layout(shard=2, tp=2), layout(shard=2, cp=2), layout(replicate=2, tp=2),
                     layout(replicate=2, cp=2), layout(tp=2, cp=2)):
            self.equal(mesh, keys)
        for axis, own in (("shard", PIPELINE), ("replicate", ZERO_BUBBLE), ("tp", PIPELINE), ("cp", PIPELINE)):
            self.equal(layout(pp=2, **{axis: 2}), keys, own=own)
        self.notices("no clipping", layout(shard=2, tp=2), keys)
        self.notices("another rate", layout(pp=2, tp=2), keys, own=PIPELINE)

    def test_triples(self):
        keys = {**FLOAT64, **TIED}
        self.equal(layout(pp=2, shard=2, tp=2), keys, own=PIPELINE)
        self.equal(layout(shard=2, tp=2, cp=2), keys)
        self.notices("another seed", layout(pp=2, shard=2, tp=2), keys, own=PIPELINE)

    # ---- single precision

    def test_single_precision_keeps_the_loss(self):
        for mesh, own in ((layout(replicate=2), {}), (layout(shard=2), {}), (layout(tp=2), {}), (layout(cp=2), {}),
                          (layout(pp=2), PIPELINE), (layout(shard=2, tp=2), {})):
            self.equal(mesh, TIED, loss=1e-6, norm=1e-4, own=own)
        self.notices("another seed", layout(shard=2), TIED, loss=1e-6)
        self.notices("no clipping", layout(shard=2, tp=2), TIED, loss=1e-6)

    # ---- data

    def test_validation(self):
        keys = {**FLOAT64, **TIED, "validation.enable": True, "validation.dataset": "local",
                "validation.dataset_path": self.root / "val.txt", "validation.local_batch_size": 4,
                "validation.seq_len": 16, "validation.freq": 2, "validation.steps": -1}
        # The text is dealt to as many streams as all readers' batches have rows.
        halved = {"validation.local_batch_size": 2}
        for mesh, own in ((layout(shard=2), halved), (layout(tp=2), {}), (layout(cp=2), {}), (layout(pp=2), PIPELINE),
                          (layout(shard=2, tp=2), halved), (layout(pp=2, shard=2), {**ZERO_BUBBLE, **halved})):
            one, other = self.equal(mesh, keys, own=own, more=("val_loss",))
            self.assertEqual(len(self.series(other, "val_loss")), 4)
        # Validation leaves training alone, and it reads another text.
        self.assertEqual(self.series(one), self.series(self.reference({**FLOAT64, **TIED})))
        text = self.train(layout(shard=2), {**keys, "validation.dataset_path": self.root / "train.txt"})
        self.assertGreater(self.gaps(one, text, ("val_loss",))["val_loss"], 1e-6)

    def test_a_set_that_ends_with_uneven_readers(self):
        (self.root / "small.txt").write_text(words(3, 700))
        keys = {**FLOAT64, **TIED, "training.dataset_path": self.root / "small.txt", "training.num_epochs": 2,
                "training.steps": 1000, "lr_scheduler.total_steps": 20}
        for mesh, own in ((layout(shard=2), {}), (layout(replicate=2, shard=2), {}), (layout(shard=2, tp=2), {}),
                          (layout(pp=2, shard=2), PIPELINE), (layout(shard=2, cp=2), {"training.local_batch_size": 1})):
            one, other = self.equal(mesh, keys, own=own)
            self.assertEqual(self.series(one, "tokens_seen"), self.series(other, "tokens_seen"))
        steps = len(self.series(one))
        self.assertGreater(steps, 3)
        self.assertLess(steps, 100)
        # The end is a short step, or the readers would be even.
        tokens = [0, *self.series(one, "tokens_seen")]
        taken = [b - a for a, b in zip(tokens, tokens[1:])]
        self.assertLess(taken[-1], taken[0])
        shorter = self.train(layout(shard=2), {**keys, "training.num_epochs": 1})
        self.assertLess(len(self.series(shorter)), steps)


if __name__ == "__main__":
    unittest.main()
