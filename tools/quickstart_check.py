"""Checks what the quickstart promises: validation loss below half of its start, generated words that occur in the
training text, and no run of ten generated words copied from it."""
import json
import pathlib
import re
import sys

KNOWN_SHARE = 0.8
LONGEST_COPY = 9  # words


def words_of(text):
    return re.findall(r"[A-Za-z]+(?:'[a-z]+)?", text.lower())


def main(run, train_path):
    problems = []
    record = json.loads((run / "run.json").read_text())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [row["val_loss"] for row in rows if row.get("val_loss") is not None]
    share = losses[-1] / losses[0]
    print(f"   validation loss {losses[0]:.3f} -> {losses[-1]:.3f} ({share:.0%} of its start; below 50% is asked)")
    if share >= 0.5:
        problems.append("the validation loss did not fall below half of its start")

    train = words_of(train_path.read_text(encoding="utf-8"))
    known = set(train)
    generated = words_of((run / "generated.txt").read_text(encoding="utf-8"))
    if len(generated) < 100:
        problems.append(f"only {len(generated)} words were generated")
    share = sum(word in known for word in generated) / max(len(generated), 1)
    print(f"   {share:.1%} of {len(generated)} generated words occur in the training text (80% are asked)")
    if share < KNOWN_SHARE:
        problems.append("too many generated words do not occur in the training text")

    length = LONGEST_COPY + 1
    runs = {tuple(generated[i:i + length]) for i in range(len(generated) - length + 1)}
    copied = [run for i in range(len(train) - length + 1) if (run := tuple(train[i:i + length])) in runs]
    print(f"   {len(copied)} runs of {length} generated words are copied from the training text (0 are asked)")
    if copied:
        problems.append("copied: " + " ".join(copied[0]))
    for problem in problems:
        print(f"quickstart: {problem}", file=sys.stderr)
    return 1 if problems or record["status"] != "finished" else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
