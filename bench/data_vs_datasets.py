"""Reading + tokenising + packing on one core: titan against the `datasets` and `tokenizers` packages.

usage: bench/data_vs_datasets.py TITAN_BINARY [--tokenizer FOLDER] [--megabytes 20] [--rounds 5] [--seq-len 2048]

Same files, same tokenizer, same packing (seq_len + 1 ids, no overlap); the two take turns on the same core. Start-up
and imports are not counted. CPU seconds are compared, so that other load on the machine weighs less; wall seconds are
printed, too. Without --tokenizer a byte-level BPE of 8192 tokens is trained on the text. Run it with the interpreter
that `tools/test_venv.sh datasets` prints.
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def peer(kind, path, tokenizer_file, seq_len):
    """What TorchTitan's data loader does: streaming datasets, encode with BOS and EOS, a token buffer."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import datasets
    import numpy as np
    import tokenizers
    datasets.disable_progress_bars()
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    config = json.loads((tokenizer_file.parent / "tokenizer_config.json").read_text())
    name = lambda key: config[key]["content"] if isinstance(config.get(key), dict) else config.get(key)
    ends = [[tokenizer.token_to_id(name(key))] if name(key) else [] for key in ("bos_token", "eos_token")]
    loader = "parquet" if kind == "parquet" else "json"
    rows = datasets.load_dataset(loader, data_files=str(path), split="train", streaming=True)
    wall, cpu = time.perf_counter(), time.process_time()
    buffer, tokens, samples, documents = [], 0, 0, 0
    for row in rows:
        ids = ends[0] + tokenizer.encode(row["text"], add_special_tokens=False).ids + ends[1]
        documents += 1
        tokens += len(ids)
        buffer.extend(ids)
        while len(buffer) >= seq_len + 1:
            sample = np.array(buffer[:seq_len + 1], dtype=np.int64)
            buffer = buffer[seq_len + 1:]
            _ = sample[:-1], sample[1:]
            samples += 1
    print(json.dumps({"documents": documents, "tokens": tokens, "samples": samples,
                      "seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}))


def source_text(megabytes):
    """English text: the dictionary of Debian's dict-gcide, else this repository's documentation again and again."""
    dictionary = pathlib.Path("/usr/share/dictd/gcide.dict.dz")
    if dictionary.exists():
        text = gzip.open(dictionary).read().decode("utf-8", "ignore")
    else:
        docs = pathlib.Path(__file__).resolve().parent.parent / "docs"
        text = "".join(file.read_text() for file in sorted(docs.glob("*.md")))
    while len(text) < megabytes * 1_000_000:
        text += text
    return text[:megabytes * 1_000_000]


def documents_of(text):
    """Documents of about 2 kB, the mean of c4."""
    documents, current, size = [], [], 0
    for paragraph in text.split("\n\n"):
        current.append(paragraph)
        size += len(paragraph)
        if size > 2000:
            documents.append("\n\n".join(current))
            current, size = [], 0
    return documents


def on_one_core(command):
    core = min(os.sched_getaffinity(0))
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    return json.loads(result.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("titan")
    parser.add_argument("--tokenizer", type=pathlib.Path)
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seq-len", type=int, default=2048)
    arguments = parser.parse_args()
    import pyarrow as pa
    import pyarrow.parquet as pq
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = source_text(arguments.megabytes)
        documents = documents_of(text)
        (folder / "all.jsonl").write_text("".join(json.dumps({"text": d, "url": "u"}) + "\n" for d in documents))
        pq.write_table(pa.table({"text": documents, "url": ["u"] * len(documents)}), folder / "all.parquet",
                       row_group_size=1000)
        tokenizer = arguments.tokenizer
        if tokenizer is None:
            tokenizer = folder / "tokenizer"
            (folder / "text.txt").write_text(text)
            subprocess.run([arguments.titan, "tokenizer", "train", folder / "text.txt", "--vocab-size", "8192", "--output",
                            tokenizer, "--max-bytes", "8000000"], check=True, stdout=subprocess.DEVNULL)
        print(f"{len(documents)} documents, {sum(map(len, documents)) / 1e6:.1f} MB of text, tokenizer {tokenizer}")
        for kind, name in (("parquet", "all.parquet"), ("jsonl", "all.jsonl")):
            cpu_ratios, wall_ratios, speed = [], [], []
            for _ in range(arguments.rounds):
                theirs = on_one_core([sys.executable, __file__, "--peer", kind, str(folder / name),
                                      str(tokenizer / "tokenizer.json"), str(arguments.seq_len)])
                ours = on_one_core([arguments.titan, "data", "bench", str(folder / name), "--tokenizer", str(tokenizer),
                                    "--seq-len", str(arguments.seq_len), "--batch-size", "1"])
                assert (ours["documents"], ours["tokens"]) == (theirs["documents"], theirs["tokens"]), (ours, theirs)
                cpu_ratios.append(theirs["cpu_seconds"] / ours["cpu_seconds"])
                wall_ratios.append(theirs["seconds"] / ours["seconds"])
                speed.append((ours["text_bytes"] / 1e6 / ours["cpu_seconds"], ours["text_bytes"] / 1e6 / theirs["cpu_seconds"]))
            ours, theirs = (statistics.median(column) for column in zip(*speed))
            print(f"{kind}: titan {ours:.1f} MB/s, datasets + tokenizers {theirs:.1f} MB/s a core; ratio of CPU time "
                  f"min {min(cpu_ratios):.2f} median {statistics.median(cpu_ratios):.2f} max {max(cpu_ratios):.2f}; "
                  f"of wall time median {statistics.median(wall_ratios):.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--peer":
        peer(sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
