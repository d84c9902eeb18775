"""Writes src/data/tokenizer/unicode_table.inc: the general category of every code point, as run lengths.

Run by hand when the Unicode version changes:
    pip install unicodedata2==16.0.0 && python tools/make_unicode_table.py >src/data/tokenizer/unicode_table.inc
The version is the one that the `tokenizers` and `tiktoken` packages use for \\p{…}; tests/tokenizers/parity.py
compares every code point with both.
"""
import textwrap

import unicodedata2

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cs Cn").split()


def main():
    runs, last, begin = [], None, 0
    for code in range(0x110001):
        category = unicodedata2.category(chr(code)) if code < 0x110000 else None
        if category != last:
            if last is not None:
                runs.append((code - begin) << 5 | CATEGORIES.index(last))
            last, begin = category, code
    print(f"// Unicode {unicodedata2.unidata_version}, made by tools/make_unicode_table.py: run length << 5 | Category.")
    print(textwrap.fill(", ".join(map(str, runs)) + ",", 118))


main()
