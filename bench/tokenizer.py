"""Speed of `titan` tokenisation against the `tokenizers` package, one thread each, in turns within one run.

    bench/tokenizer.py TITAN TOKENIZER.json [TEXT…] [--rounds 7] [--mebibytes 8]

Without TEXT the text is the mixed one of tests/tokenizers/corpus.py. Both sides encode the same JSON lines' texts;
titan's time is that of `titan tokenizer bench`, the package's that of encode_batch_fast with one thread, each without
loading and reading. Prints MB/s of both and the least, median and largest ratio of the rounds, after checking that the
numbers of tokens are equal.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "tokenizers"))


def mixed_text(size):
    import corpus
    rng, parts, total = random.Random(3), [], 0
    while total < size:
        parts.append(" ".join(corpus.text_line(rng) if rng.random() < 0.3 else
                              " ".join(rng.choices(corpus.WORDS, k=60)) for _ in range(20)))
        total += len(parts[-1].encode())
    return parts


def documents(paths, size):
    if not paths:
        return mixed_text(size)
    text = b"".join(pathlib.Path(p).read_bytes() for p in paths)[:size].decode("utf-8", errors="replace")
    return [text[at: at + 4000] for at in range(0, len(text), 4000)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("titan")
    parser.add_argument("tokenizer")
    parser.add_argument("text", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mebibytes", type=float, default=8)
    arguments = parser.parse_args()
    from tokenizers import Tokenizer
    reference = Tokenizer.from_file(arguments.tokenizer)
    texts = documents(arguments.text, int(arguments.mebibytes * 2**20))
    size = sum(len(t.encode()) for t in texts)
    ratios = []
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        file.flush()
        for turn in range(arguments.rounds):
            begin = time.process_time()
            wanted = sum(len(e.ids) for e in reference.encode_batch_fast(texts, add_special_tokens=False))
            theirs = time.process_time() - begin
            done = subprocess.run([arguments.titan, "tokenizer", "bench", "--tokenizer", arguments.tokenizer, file.name],
                                  stdout=subprocess.PIPE, check=True)
            result = json.loads(done.stdout)
            if result["tokens"] != wanted:
                sys.exit(f"titan made {result['tokens']} tokens, the package {wanted}")
            ratios.append(theirs / result["cpu_s"])
            print(f"round {turn + 1}: titan {size / result['cpu_s'] / 1e6:6.1f} MB/s   tokenizers {size / theirs / 1e6:6.1f} "
                  f"MB/s   ratio {ratios[-1]:.1f}", flush=True)
    print(f"{size / 1e6:.1f} MB, {wanted:,} tokens, CPU time of one thread each: titan is {min(ratios):.1f} / "
          f"{statistics.median(ratios):.1f} / {max(ratios):.1f} times as fast (min / median / max)")


if __name__ == "__main__":
    main()
