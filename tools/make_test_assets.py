#!/usr/bin/env python3
"""Writes tests/assets: the text of the dataset c4_test, its tokenizer, and a pipeline schedule.

    tools/make_test_assets.py [PATH_OF_TITAN]

The text is invented: sentences in English and Chinese from the templates below, always the same ones. The tokenizer is
trained on it by `titan tokenizer train`; its 2,000 tokens fit the debug models, which have 2,048.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ASSETS = ROOT / "tests" / "assets"
SEED, ENGLISH, CHINESE, VOCABULARY = 20, 560, 240, 2000

# A template's {name} is replaced by a word of that row.
WORDS = {
    "person": "the miller|a ferryman|Anna|old Tomas|the baker's daughter|a clockmaker|the new teacher|my uncle|Ruth|"
              "a shepherd|the harbour master|a young engineer|the postman|Clara|a beekeeper|the stationmaster",
    "place": "the old mill|the harbour|a narrow valley|the market square|the northern road|a quiet library|the river bank|"
             "the railway station|an orchard|the lighthouse|the upper village|a workshop by the canal|the salt marsh",
    "thing": "a brass lamp|three letters|a sack of barley|the broken clock|a map of the coast|two copper wires|a basket of pears|"
             "an old notebook|the spare wheel|a bell without a tongue|a bundle of rope|seven glass jars|a small pump",
    "time": "in the early morning|after the first frost|before the rain came|late in the evening|on the third day|"
            "at the end of summer|during the long winter|shortly after noon|when the fog lifted|one Sunday in April",
    "verb": "repaired|carried home|found|sold|measured|painted|weighed|forgot|borrowed|described|took apart|counted",
    "quality": "heavier than it looked|surprisingly quiet|almost finished|not for sale|older than the bridge|quite dry|"
               "warm from the sun|of little use|cheaper than last year|easy to read|covered with dust",
    "reason": "the road was closed|nobody had asked|the water stood too high|the price had doubled|the light was poor|"
              "the train was late|there was enough wind|the harvest had been good|the key was missing",
    "number": "two|three|four|seven|twelve|about twenty|nearly forty|a hundred",
    "unit": "metres|kilograms|barrels|steps|pages|litres|hours|coins",
    "人": "老船长|邻居家的女儿|新来的老师|一位钟表匠|小林|磨坊主人|卖茶的老人|年轻的工程师|邮递员|村里的木匠",
    "地": "河边的旧磨坊|山脚下的小镇|港口的仓库|车站旁的书店|村口的桥上|安静的图书馆|北边的果园|灯塔下面",
    "物": "一盏铜灯|三封旧信|一袋大麦|坏了的钟|海岸的地图|一筐梨子|备用的轮子|一本笔记|两捆绳子",
    "时": "清晨|第一场霜以后|下雨之前|傍晚|夏天快结束的时候|漫长的冬天里|雾散了以后|四月的一个星期天",
    "动": "修好了|带回了|找到了|卖掉了|量了量|忘记了|借走了|数了数",
    "因": "路被封了|水涨得太高|价钱翻了一倍|火车晚点了|今年收成很好|钥匙不见了|风正合适",
}
ENGLISH_SENTENCES = (
    "{Time} {person} {verb} {thing} near {place}.", "{Person} {verb} {thing}, because {reason}.",
    "It was {quality}, and {number} {unit} long.", "Nobody at {place} knew why {person} had {verb} {thing}.",
    "{Thing} stood at {place} until {person} {verb} it {time}.", "\"Is it {quality}?\" asked {person}.",
    "To get from {place} to {place} one needs {number} hours, or more if {reason}.",
    "{Person} wrote down that {thing} was {quality}.", "The price was {number} coins; {person} paid, although {reason}.",
    "First weigh it, then count the {unit}: {number} are enough.", "{Time} {reason}, so {person} went back to {place}.",
)
CHINESE_SENTENCES = (
    "{时}，{人}在{地}{动}{物}。", "因为{因}，{人}没有去{地}。", "{人}说：“{物}放在{地}了。”", "{物}是{人}{时}留下的。",
    "{时}{因}，所以{人}{动}{物}。", "从{地}走到{地}，大约要两个小时。", "没有人知道{人}为什么{动}{物}。",
)


def sentence(rng, templates):
    text = rng.choice(templates)
    while "{" in text:
        begin, end = text.index("{"), text.index("}")
        name = text[begin + 1:end]
        word = rng.choice(WORDS[name.lower()].split("|"))
        if name[0].isupper():
            word = word[0].upper() + word[1:]
        text = text[:begin] + word + text[end + 1:]
    return text


def documents():
    rng = random.Random(SEED)
    kinds = ["en"] * ENGLISH + ["zh"] * CHINESE
    rng.shuffle(kinds)
    for kind in kinds:
        templates, space = (ENGLISH_SENTENCES, " ") if kind == "en" else (CHINESE_SENTENCES, "")
        paragraphs = [space.join(sentence(rng, templates) for _ in range(rng.randint(2, 6)))
                      for _ in range(rng.randint(1, 3))]
        yield "\n".join(paragraphs)


def schedule(stages_of_rank, micro_batches):
    """One row a rank: all forward passes, then input and weight gradients apart, two micro-batches at a time."""
    for stages in stages_of_rank:
        row = [f"{s}F{m}" for s in stages for m in range(micro_batches)]
        for first in range(0, micro_batches, 2):
            for s in reversed(stages):
                row += [f"{s}{action}{m}" for m in (first, first + 1) for action in "IW"]
        yield ",".join(row)


def main():
    titan = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "titan").resolve()
    texts = list(documents())
    (ASSETS / "c4_test").mkdir(parents=True, exist_ok=True)
    with open(ASSETS / "c4_test" / "data.json", "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    (ASSETS / "custom_schedule.csv").write_text("\n".join(schedule(((0, 2), (1, 3)), 8)) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / "text.txt"
        plain.write_text("\n".join(texts) + "\n", encoding="utf-8")
        subprocess.run([titan, "tokenizer", "train", plain, "--vocab-size", str(VOCABULARY), "--threads", "1",
                        "--output", ASSETS / "tokenizer"], check=True)


if __name__ == "__main__":
    main()
