"""The `tensorboard` package reads what titan's event files hold: event_file_test.py WRITE_EVENTS_PROGRAM."""
import math
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder], check=True)
        events = EventAccumulator(folder, size_guidance={"scalars": 0})
        events.Reload()
        tags = sorted(events.Tags()["scalars"])
        assert tags == sorted(["loss_metrics/global_avg_loss", "mfu(%)", "lr", "n_tokens_seen", "损失"]), tags
        loss = events.Scalars("loss_metrics/global_avg_loss")
        assert [e.step for e in loss] == list(range(1, 301))
        assert all(math.isclose(e.value, 8.0 / e.step, rel_tol=1e-7) for e in loss)
        assert all(math.isclose(e.value, 1e-3 * e.step, rel_tol=1e-7) for e in events.Scalars("lr"))
        (tokens,) = events.Scalars("n_tokens_seen")
        assert tokens.step == 2**40 and math.isclose(tokens.value, 1e12, rel_tol=1e-7), tokens
        assert events.Scalars("损失")[0].value == -0.5
        assert abs(loss[0].wall_time - events.FirstEventTimestamp()) < 60
    print("tensorboard read 5 tags, 902 scalars")


if __name__ == "__main__":
    main(sys.argv[1])
