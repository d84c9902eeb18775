#!/usr/bin/env python3
"""Writes a C++ file that defines names which a set of libraries asks for and nobody gives.

Every function calls `--call`(its name), which says loudly that the name is not available; every definition is weak, so a
real one in the same link wins. The names come from the libraries at hand, not from a list that ages:
  --wanted-by LIB…      undefined symbols of these libraries (weak and versioned ones, which libc and libstdc++ give, are not)
  --strings-of LIB…     words inside these libraries that match --names (functions looked up by name at run time)
  --given-by LIB…       symbols of these are left out
  --names REGEX         only names that match it wholly; --not-names REGEX leaves names out
  --pair SUFFIX         each name also gets a partner with this suffix (aclnnX and aclnnXGetWorkspaceSize)
  --data REGEX          names that are objects, not functions: 4 KiB of zeros each
  --data-of LIB…        libraries whose symbol table tells which names are objects
"""
import argparse
import re
import subprocess
import sys


def symbols(nm, library, *options):
    """(name, type letter) of the dynamic symbols of a library."""
    text = subprocess.run([nm, "-D", *options, library], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2:
            yield words[-1], words[-2]


def words_of(library, pattern):
    with open(library, "rb") as file:
        data = file.read()
    found = {match.decode() for match in re.findall(rb"[A-Za-z_][A-Za-z0-9_]{3,}(?=\0)", data)}
    return {word for word in found if pattern.fullmatch(word)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--wanted-by", "--strings-of", "--given-by", "--data-of"):
        parser.add_argument(name, nargs="*", default=[])
    parser.add_argument("--names", default=".*")
    parser.add_argument("--not-names", default="")
    parser.add_argument("--pair", default="")
    parser.add_argument("--data", default="")
    parser.add_argument("--call", required=True)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def wanted_names(args):
    pattern = re.compile(args.names)
    names = set()
    for library in args.wanted_by:
        for name, kind in symbols(args.nm, library, "--undefined-only"):
            if kind == "U" and "@" not in name and pattern.fullmatch(name):
                names.add(name)
    for library in args.strings_of:
        names |= words_of(library, pattern)
    if args.not_names:
        names = {name for name in names if not re.fullmatch(args.not_names, name)}
    if args.pair:
        bases = {name.removesuffix(args.pair) for name in names}
        names = bases | {base + args.pair for base in bases}
    for library in args.given_by:
        names -= {name.split("@")[0] for name, _ in symbols(args.nm, library, "--defined-only")}
    return names


def main():
    args = parse()
    names = wanted_names(args)
    data = {name for name in names if args.data and re.fullmatch(args.data, name)}
    for library in args.data_of:
        data |= {name for name, kind in symbols(args.nm, library, "--defined-only") if kind in "BDRVbdrGS"} & names
    lines = ['extern "C" {', f"long {args.call}(const char*);"]
    for name in sorted(names):
        if name in data:
            lines.append(f"__attribute__((weak)) char {name}[4096] __attribute__((aligned(16)));")
        else:
            said = name.removesuffix(args.pair) if args.pair else name
            lines.append(f'__attribute__((weak)) long {name}(void) {{ return {args.call}("{said}"); }}')
    lines.append("}")
    with open(args.out, "w") as file:
        file.write("\n".join(lines) + "\n")
    if not names:
        sys.exit(f"make_stubs.py: no name found for {args.out}: the libraries are not what they should be")


if __name__ == "__main__":
    main()
