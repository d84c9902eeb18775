"""Compares titan's reading and packing with the `datasets` and `tokenizers` packages on files that those packages write.

usage: datasets_test.py TITAN_BINARY
"""
import gzip
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers

TITAN = None
ALPHABET = "abcdefghij KLMNOP.,;\n\té中文😀"


def documents(count, seed=1):
    rng = random.Random(seed)
    texts = ["".join(rng.choice(ALPHABET) for _ in range(rng.choice([1, 5, 40, 400]))) for _ in range(count)]
    return [text if text.strip() else "x" + text for text in texts]


def titan(*arguments):
    result = subprocess.run([TITAN, "data", *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f"titan data {arguments}: {result.stderr}")
    return result.stdout


def shown(path, *options):
    return [json.loads(line)["text"] for line in titan("show", path, *options).splitlines()]


def make_tokenizer(folder, texts):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    return tokenizer


def packed(tokenizer, texts, seq_len, streams):
    """The stated sample order: document r to stream r mod V, sample k from stream k mod V, seq_len + 1 ids each."""
    bos, eos = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    samples = []
    for stream in range(streams):
        ids = []
        for text in texts[stream::streams]:
            ids += [bos] + tokenizer.encode(text).ids + [eos]
        samples.append([ids[i:i + seq_len + 1] for i in range(0, len(ids), seq_len + 1)])
    order = []
    for turn in range(max(map(len, samples))):
        order += [own[turn] for own in samples if turn < len(own) and len(own[turn]) > 1]
    return order


class DatasetsTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.texts = documents(2500)
        self.set = datasets.Dataset.from_dict({"id": list(range(len(self.texts))), "text": self.texts})

    def tearDown(self):
        self.temporary.cleanup()

    def test_save_to_disk(self):
        self.set.save_to_disk(self.folder / "saved", num_shards=3)
        loaded = datasets.load_from_disk(self.folder / "saved")
        self.assertEqual(shown(self.folder / "saved"), list(loaded["text"]))

    def test_save_to_disk_after_select(self):
        chosen = self.set.select(range(0, 2500, 7)).filter(lambda row: row["id"] % 2 == 0)
        chosen.save_to_disk(self.folder / "saved")
        self.assertEqual(shown(self.folder / "saved"), list(chosen["text"]))

    def test_dataset_dict(self):
        splits = datasets.DatasetDict({"train": self.set.select(range(100)), "test": self.set.select(range(100, 130))})
        splits.save_to_disk(self.folder / "saved")
        self.assertEqual(shown(self.folder / "saved"), self.texts[:100])
        self.assertEqual(shown(self.folder / "saved", "--split", "validation"), self.texts[100:130])

    def test_parquet_and_json(self):
        self.set.to_parquet(self.folder / "a.parquet", batch_size=700)
        self.set.to_json(self.folder / "a.jsonl")
        self.set.to_json(self.folder / "b.jsonl.gz", compression="gzip", force_ascii=True)
        for name in ("a.parquet", "a.jsonl", "b.jsonl.gz"):
            self.assertEqual(shown(self.folder / name), self.texts, name)

    def test_column_types(self):
        for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()):
            values = pa.array([text.encode() if kind == pa.binary() else text for text in self.texts])
            table = pa.table({"text": values.cast(kind) if kind != pa.binary() else values, "n": range(2500)})
            pq.write_table(table, self.folder / "a.parquet", row_group_size=300)
            self.assertEqual(shown(self.folder / "a.parquet"), self.texts, kind)
            with pa.ipc.new_file(self.folder / "a.arrow", table.schema) as writer:
                writer.write_table(table, max_chunksize=100)
            self.assertEqual(shown(self.folder / "a.arrow"), self.texts, kind)
        for compression in ("lz4", "zstd"):
            table = pa.table({"text": self.texts})
            options = pa.ipc.IpcWriteOptions(compression=compression)
            with pa.ipc.new_stream(self.folder / "b.arrow", table.schema, options=options) as writer:
                writer.write_table(table, max_chunksize=100)
            self.assertEqual(shown(self.folder / "b.arrow"), self.texts, compression)

    def test_packing(self):
        tokenizer = make_tokenizer(self.folder / "tokenizer", self.texts)
        self.set.to_parquet(self.folder / "a.parquet")
        for seq_len, streams in ((64, 1), (33, 8), (256, 3)):
            output = titan("samples", self.folder / "a.parquet", "--tokenizer", self.folder / "tokenizer", "--seq-len",
                           seq_len, "--batch-size", streams)
            self.assertEqual([json.loads(line) for line in output.splitlines()],
                             packed(tokenizer, self.texts, seq_len, streams))

    def test_packing_comparison_sees_a_lost_document(self):
        tokenizer = make_tokenizer(self.folder / "tokenizer", self.texts)
        self.assertNotEqual(packed(tokenizer, self.texts, 64, 2), packed(tokenizer, self.texts[:700] + self.texts[701:], 64, 2))

    def test_info_counts(self):
        with gzip.open(self.folder / "a.jsonl.gz", "wb") as file:
            for text in self.texts:
                file.write(json.dumps({"text": text}).encode() + b"\r\n")
            file.write(b'{"text": ""}\n{"text": 3}\n{"other": 1}\nnonsense')
        output = titan("info", self.folder / "a.jsonl.gz")
        self.assertIn("documents: 2,500,", output)
        for line in ("crlf: 2,500 ", "empty_text: 1 ", "non_string_text: 1 ", "missing_text: 1 ", "json_error: 1 ",
                     "no_final_newline: 1 "):
            self.assertIn("  " + line, output)


if __name__ == "__main__":
    TITAN = sys.argv.pop(1)
    datasets.disable_progress_bars()
    unittest.main()
