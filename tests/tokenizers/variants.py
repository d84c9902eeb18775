"""tokenizer.json files with the parts that real files use: conversions of real vocabularies, and small vocabularies
whose ids show every byte and every border of a piece, for each normaliser, pre-tokeniser, decoder and kind of added
token."""
import json

import corpus

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
          r"\s+(?!\S)|\s")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
THOUSANDS = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))|[^\p{N}]+"
DEEPSEEK2 = [r"[\r\n]", r"\s?\p{L}+",
             r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", r"[一-龥ࠀ-一가-퟿]+"]


def byte_characters():
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, free = {b: chr(b) for b in own}, 256
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(free)
            free += 1
    return table


# Small files whose answer depends on a table of characters; the others see every twentieth group of scalars.
ON_ALL_OF_UNICODE = {"norm-NFC", "norm-NFD", "norm-NFKC", "norm-NFKD", "norm-Lowercase", "norm-StripAccents", "norm-Nmt",
                     "pre-Whitespace", "pre-BertPreTokenizer", "pre-Digits-True", "regex-word", "regex-wrapped-qwen2"}
BYTES = byte_characters()


def added(token_id, content, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **flags}


def tokenizer_json(vocab, merges, **parts):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": vocab, "merges": merges, **parts.pop("model", {})}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None, **parts}
    return {**whole, "model": model}


def split(regex, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: regex}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def sequence(kind, parts):
    return {"type": "Sequence", kind: parts}


def from_ranks(ranks, pattern, number=None):
    """A byte-level tokenizer.json out of tiktoken ranks, with every way to form each token as a merge."""
    chosen = {token: rank for token, rank in ranks.items() if number is None or rank < number}

    def spell(token):
        return "".join(BYTES[b] for b in token)

    merges = []
    for token, rank in chosen.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in chosen and right in chosen:
                merges.append((rank, chosen[left], chosen[right], spell(left), spell(right)))
    merges.sort()
    vocab = {spell(token): rank for token, rank in chosen.items()}
    end = len(vocab)
    return tokenizer_json(
        vocab, [[a, b] for *_, a, b in merges], model={"ignore_merges": True},
        added_tokens=[added(end, "<|begin_of_text|>"), added(end + 1, "<|endoftext|>"),
                      added(end + 2, "<|im_start|>", normalized=True, special=False)],
        pre_tokenizer=sequence("pretokenizers", [split(pattern), byte_level()]),
        post_processor=sequence("processors", [byte_level(True, True), {
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}},
                                                     {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [end],
                                                                  "tokens": ["<|begin_of_text|>"]}}}]),
        decoder=byte_level(True, True))


def from_sentencepiece(model, **parts):
    """A character BPE with byte fallback out of a SentencePiece model, as Llama 2 and Mistral have it."""
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    size = processor.get_piece_size()
    pieces = [processor.id_to_piece(i) for i in range(size)]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for i, piece in enumerate(pieces):
        if processor.is_byte(i) or processor.is_control(i) or processor.is_unknown(i):
            continue
        local = []
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocab and right in vocab:
                local.append((vocab[left], vocab[right], left, right))
        for *_, left, right in sorted(local):
            merges.append((-processor.get_score(i), left, right))
    merges.sort(key=lambda m: m[0])
    return tokenizer_json(
        vocab, [f"{a} {b}" for _, a, b in merges],
        model={"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True},
        added_tokens=[added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
        decoder=sequence("decoders", [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                      {"type": "ByteFallback"}, {"type": "Fuse"},
                                      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]), **parts)


def show_all(**parts):
    """A vocabulary of bytes, ASCII and a few joins: ids show the normalised text, and with `ends` each piece's end."""
    vocab = {"<unk>": 0}
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    for char in [chr(c) for c in range(0x21, 0x7F)] + ["▁", "é", "你", "Ġ"]:
        vocab[char] = len(vocab)
    merges = [("t", "h"), ("th", "e"), ("i", "n"), ("h", "e"), ("▁", "t"), ("▁t", "he"), ("a", "b"), ("1", "2"), ("▁", "▁")]
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    model = {"unk_token": "<unk>", "byte_fallback": True}
    if parts.pop("ends", False):
        model["end_of_word_suffix"] = "</w>"
    model.update(parts.pop("model", {}))
    free = len(vocab)
    for token in parts.get("added_tokens", []):  # ids go on behind the vocabulary, as the package numbers them
        token["id"] = vocab.get(token["content"], free)
        free += token["content"] not in vocab
    return tokenizer_json(vocab, [list(m) for m in merges], model=model, **parts)


def metaspace(scheme, cut):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}


def small_files():
    """Names and contents of the small files."""
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
        yield f"norm-{form}", show_all(normalizer={"type": form})
    yield "norm-Strip", show_all(normalizer={"type": "Strip", "strip_left": True, "strip_right": True})
    yield "norm-Strip-right", show_all(normalizer={"type": "Strip", "strip_left": False, "strip_right": True})
    yield "norm-Sequence", show_all(normalizer=sequence("normalizers", [
        {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
        {"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\p{Cc}\p{Cf}]+"}, "content": " "},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, {"type": "Prepend", "prepend": "▁"}]))
    yield "norm-ByteLevel", show_all(normalizer={"type": "ByteLevel"}, decoder=byte_level())
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            yield f"pre-Metaspace-{scheme}-{cut}", show_all(
                pre_tokenizer=metaspace(scheme, cut), decoder=metaspace(scheme, cut), ends=scheme != "never",
                added_tokens=[added(1000, "<s>"), added(1001, "[INST]", normalized=True)])
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield f"pre-Split-{behavior}-{invert}", show_all(
                pre_tokenizer=split(r"\s|\p{P}", behavior, invert), ends=True)
        yield f"pre-Split-string-{behavior}", show_all(pre_tokenizer=split("e", behavior, kind="String"), ends=True)
        yield f"pre-Punctuation-{behavior}", show_all(
            pre_tokenizer={"type": "Punctuation", "behavior": behavior}, ends=True)
    for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer"):
        yield f"pre-{name}", show_all(pre_tokenizer={"type": name}, ends=True)
    for each in (True, False):
        yield f"pre-Digits-{each}", show_all(pre_tokenizer={"type": "Digits", "individual_digits": each}, ends=True)
    yield "pre-CharDelimiterSplit", show_all(pre_tokenizer={"type": "CharDelimiterSplit", "delimiter": "a"}, ends=True)
    yield "pre-FixedLength", show_all(pre_tokenizer={"type": "FixedLength", "length": 3}, ends=True)
    for name, regex in (("cl100k", CL100K), ("kimi", KIMI), ("bloom", BLOOM), ("thousands", THOUSANDS),
                        ("word", r"\b\w+\b|\W"), ("wrapped-gpt2", f"(?:{GPT2})"), ("wrapped-qwen2", f"(?:{QWEN2})"),
                        ("lines", r"^\s+|\s+$|[^\S\n]+|\n"), ("groups", r"(\p{Lu}\p{Ll}*|\d+(?:[.,]\d+)*)|(?<=\p{L})\p{P}")):
        yield f"regex-{name}", show_all(pre_tokenizer=split(regex), ends=True)
    yield "regex-deepseek2", show_all(pre_tokenizer=sequence("pretokenizers", [
        *[split(regex) for regex in DEEPSEEK2], {"type": "Digits", "individual_digits": True},
        byte_level()]), ends=True)
    flags = [{}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"normalized": True},
             {"lstrip": True, "rstrip": True, "normalized": True, "special": False}]
    tokens = [added(2000 + i, content, **flags[i % len(flags)]) for i, content in enumerate(corpus.SPECIALS)]
    yield "added-tokens", show_all(added_tokens=tokens, normalizer={"type": "Lowercase"}, ends=True,
                                   pre_tokenizer={"type": "WhitespaceSplit"})
    yield "unk-fused", show_all(model={"byte_fallback": False, "fuse_unk": True})
    yield "unk-single", show_all(model={"byte_fallback": False})
    yield "unk-none", show_all(model={"byte_fallback": False, "unk_token": None})
    # No file with a continuing_subword_prefix: `tokenizers` panics on it.


def write(folder, llama3_ranks, llama3_pattern, llama4_pattern, sentencepiece_model):
    """Writes the files; gives name, path and options of each."""
    folder.mkdir(parents=True, exist_ok=True)

    def put(name, content, **options):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(content, ensure_ascii=False))
        return name, path, options

    ranks = llama3_ranks()
    yield put("llama3-json", from_ranks(ranks, llama3_pattern), scalars=False, share=0.3)
    quick = {"scalars": "sampled", "share": 0.1}
    for name, pattern in (("gpt2", GPT2), ("qwen2", QWEN2), ("llama4", llama4_pattern)):
        yield put(f"{name}-pattern", from_ranks(ranks, pattern, 4000), **quick)
    file = from_ranks(ranks, GPT2, 4000)
    file["pre_tokenizer"] = byte_level(True, True)
    file["normalizer"] = {"type": "NFC"}
    yield put("gpt2-prefix-nfc", file, **quick)
    yield put("llama2-json", from_sentencepiece(sentencepiece_model, normalizer=sequence("normalizers", [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}])),
        scalars="sampled", share=0.3)
    yield put("mistral-metaspace-json", from_sentencepiece(sentencepiece_model, pre_tokenizer=metaspace("first", False)),
              **quick)
    for name, content in small_files():
        yield put(name, content, scalars="grouped" if name in ON_ALL_OF_UNICODE else "sampled", share=0.03)
