"""Lines that tokenizers find hard: mixed scripts, code, emoji, odd white space, long runs, bytes that are not UTF-8.

Everything is made from one seed, so that a failure can be found again. Lines are bytes; what is not UTF-8 in them is
replaced by U+FFFD for the reference (bytes.decode(errors="replace")) and for titan (its rule for such input).
"""
import random

WORDS = ("the of and to in is was for that with model training gradient it's don't WE'RE they'll I'm you've he'd "
         "naïve café Straße Ωmega été señor façade 'tis o'clock rock'n'roll HTTPServer camelCase snake_case "
         "ALLCAPS iPhone x86_64 C++20 e.g. i.e. U.S.A. résumé İstanbul ſpecial ﬁnal Ǆungla").split()
SCRIPTS = [(0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x2AF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F),
           (0x591, 0x5F4), (0x600, 0x6FF), (0x700, 0x74F), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF),
           (0xE00, 0xE5B), (0xE80, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF),
           (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1780, 0x17FF), (0x1800, 0x18AF), (0x1E00, 0x1EFF), (0x2000, 0x206F),
           (0x2070, 0x20CF), (0x2100, 0x218F), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2500, 0x27BF), (0x2C00, 0x2C5F),
           (0x2E00, 0x2E7F), (0x3000, 0x303F), (0x3040, 0x30FF), (0x3100, 0x312F), (0x3130, 0x318F), (0x3400, 0x3500),
           (0x4E00, 0x9FFF), (0xA000, 0xA0FF), (0xA640, 0xA69F), (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xF900, 0xFAFF),
           (0xFB00, 0xFB4F), (0xFB50, 0xFDFF), (0xFE00, 0xFE6F), (0xFF00, 0xFFEF), (0x10000, 0x100FF),
           (0x10330, 0x1034F), (0x10400, 0x1044F), (0x12000, 0x12100), (0x1D400, 0x1D7FF), (0x1F1E6, 0x1F1FF),
           (0x1F300, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1F9FF), (0x20000, 0x20100), (0xE0100, 0xE01EF)]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u2029", "\x0b",
          "\x0c", "\x85", "\u200b", "\ufeff", " \n ", "\t\t  ", "\u1680", "\u202f", "        "]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇫🇷🇩🇪", "☕️", "1️⃣", "❤️‍🔥", "🧑🏿‍🚀", "©️"]
CODE = ["for (int i = 0; i < n; ++i) {", "  return x->y[i] != NULL && !done;", "def f(self, *args, **kw):\n    pass",
        "<a href=\"https://example.org/?q=1&b=%20\">x</a>", "SELECT * FROM t WHERE a>='b';", "\\frac{a}{b}^{2}_{i}",
        "#include <vector>\n\nint main(){}", "{\"k\": [1, 2.5e-10, null]}", "$HOME/.config//x--y", "if __name__ == '__main__':",
        "0xDEADBEEF 1_000_000 3.14159265358979 1234567890123", "a=b+c*d/e%f^g|h&i~j", "@decorator\r\n\tclass A<T>::b{}",
        "```python\nprint('hi')\n```", "----====####****____", "/* comment */ // eol", "x\t=\ty;\n\n\n\treturn;\n"]
SPECIALS = ["<|begin_of_text|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "[INST]", "<｜end▁of▁sentence｜>", "<0x41>", "▁",
            "<|im_start|>", "<think>", "Ġ", "Ċ"]


def word(rng):
    return rng.choice(WORDS)


def script(rng):
    first, last = rng.choice(SCRIPTS)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 12)))


def any_scalar(rng):
    while True:
        code = rng.randrange(0x110000)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def long_run(rng):
    unit = rng.choice(["a", "A", " ", "\n", "!", "1", "ab", "=", "-", "é", "你", "😀", "\u0301", "\t", "xyz", "aB", ".", "ー"])
    return unit * rng.choice([7, 16, 33, 64, 130, 300])


PARTS = [(word, 40), (script, 18), (lambda r: r.choice(SPACES), 22), (lambda r: r.choice(EMOJI), 4),
         (lambda r: r.choice(CODE), 8), (lambda r: str(r.randrange(10 ** r.randint(1, 14))), 7),
         (lambda r: r.choice("!?.,;:'\"()[]{}<>/\\|@#$%^&*-_=+~`…—“”‘’«»、。！？·"), 12), (any_scalar, 4), (long_run, 1),
         (lambda r: r.choice(SPECIALS), 2), (lambda r: " ", 40)]


def text_line(rng):
    makers, weights = zip(*PARTS)
    return "".join(maker(rng) for maker in rng.choices(makers, weights, k=rng.randint(1, 24)))


def damage(rng, line):
    """Bytes that are not UTF-8: cut sequences, stray bytes, surrogates, overlong forms."""
    line = bytearray(line)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(line) + 1)
        line[at:at] = rng.choice([b"\xff", b"\x80", b"\xc3", b"\xe4\xbd", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf",
                                  b"\xf5\x80\x80\x80", b"\xe2\x28\xa1", b"\xf0\x28\x8c\xbc"])
    if rng.random() < 0.3:
        del line[rng.randrange(len(line)):]
    return bytes(line)


def lines(count, seed=20):
    rng = random.Random(seed)
    for _ in range(count):
        line = text_line(rng).encode()
        yield damage(rng, line) if rng.random() < 0.1 else line


def scalars():
    """Every Unicode scalar alone, after a letter and after a blank."""
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000:
            yield chr(code)
            yield "a" + chr(code)
            yield " " + chr(code)


def grouped_scalars(size=40, step=1):
    """Every Unicode scalar once after a letter and once after a blank, many to a text; every `step`-th such text.
    The private planes, 131,068 scalars of one category, are left out but for their ends."""
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000 and not 0xF0100 <= code < 0x10FF00]
    for at in range(0, len(codes), size * step):
        yield "".join(f"a{chr(code)} {chr(code)}" for code in codes[at: at + size])
