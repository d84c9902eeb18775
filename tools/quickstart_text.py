"""Writes train.txt and validation.txt, one document a line, for the quickstart.

Without --text the documents are the entries of the GNU Collaborative International Dictionary of English, as Debian's
package dict-gcide installs it. With --text they are the lines of the given files. Every 50th document is held out.
"""
import argparse
import gzip
import pathlib
import re
import sys

DICTIONARY = pathlib.Path("/usr/share/dictd/gcide.dict.dz")
SHORTEST = 40  # characters; shorter entries are cross references


def dictionary_entries():
    """Entries begin at the margin, their text is indented or follows blank lines."""
    if not DICTIONARY.exists():
        sys.exit(f"quickstart: {DICTIONARY} is missing — install the package dict-gcide, or pass --text FILE")
    # A few bytes of the file are not ASCII and not UTF-8 either; they are dropped.
    text = gzip.open(DICTIONARY).read().decode("ascii", "ignore")
    text = text[re.search(r"^\S+ \\", text, re.MULTILINE).start():]  # behind the terms of its licence
    entry = []
    for line in text.split("\n"):
        if line and not line.startswith("   "):
            yield " ".join(entry)
            entry = []
        if line.strip():
            entry.append(line.strip())
    yield " ".join(entry)


def cleaned(entries):
    for entry in entries:
        entry = re.sub(r"\[[^\]]*\]|[{}]", "", entry)
        entry = re.sub(r"\s+", " ", entry).strip()
        if len(entry) >= SHORTEST and entry[0].isalnum() and not entry.startswith("Begin file"):
            yield entry


def lines_of(paths):
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from (line.strip() for line in file if line.strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--text", nargs="+", default=[])
    arguments = parser.parse_args()
    documents = list(lines_of(arguments.text) if arguments.text else cleaned(dictionary_entries()))
    if len(documents) < 100:
        sys.exit(f"quickstart: {len(documents)} lines of text are too few to learn from — at least 100 are needed")
    held_out = documents[::50]
    train = [document for number, document in enumerate(documents) if number % 50]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train.txt", train), ("validation.txt", held_out)):
        partial = arguments.folder / (name + ".partial")
        partial.write_text("\n".join(part) + "\n", encoding="utf-8")
        partial.rename(arguments.folder / name)
        print(f"   {arguments.folder / name}: {len(part):,} documents, {sum(map(len, part)):,} characters")


if __name__ == "__main__":
    main()
