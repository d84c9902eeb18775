"""Text made for tests, the same for the same seed."""
import random


def words(seed, count):
    """Text with something to learn: words of a small vocabulary in a skewed order, documents of uneven length."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choice("abcdefghij") for _ in range(rng.randint(1, 6))) for _ in range(60)]
    lines, left = [], count
    while left > 0:
        length = min(left, rng.randint(1, 40))
        lines.append(" ".join(vocabulary[int(rng.random() ** 3 * 60)] for _ in range(length)))
        left -= length
    return "\n".join(lines) + "\n"
