#!/usr/bin/env python3
"""Compares the operators of torch_npu that titan calls with those that other versions of torch_npu register.

    tools/check_npu_schemas.py [VERSION…]       downloads these wheels (default: those of tools/npu_wheels.txt and the newest)
    tools/check_npu_schemas.py --library FILE   reads a libtorch_npu.so that is there

A wheel cannot be loaded without its own torch, so the schemas are read from the texts inside libtorch_npu.so, which are what
the library hands to TORCH_LIBRARY. tests/npu/schemas_test.py holds this reading against the live registration of the torch_npu
at hand. Prints a line for each version and one for each difference (operator, argument, version); exits 1 when a version that
titan supports (marked in the table) differs, 3 when a wheel cannot be had.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools/npu_wheels.txt"
LIBRARY = "torch_npu/lib/libtorch_npu.so"
# Name, arguments with at most one level of brackets inside, results.
REGISTERED = re.compile(rb"(?:npu::)?([A-Za-z_]\w*(?:\.\w+)?)(\((?:[^()]|\([^()]*\))*\) -> .+)", re.DOTALL)
ARROW = b") -> "
NAMED = {"Mean": "1", "Sum": "2"}  # constants that a schema may be written with


def arguments(text):
    """The pieces of "(…) -> …" between commas outside of brackets and quotes, and the results; defaults in one spelling."""
    inside, results = text[1:text.rindex(") -> ")], text[text.rindex(") -> ") + 5:]
    pieces, piece, depth, quote = [], "", 0, ""
    for c in inside:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        if c == "," and depth == 0 and not quote:
            pieces.append(piece)
            piece = ""
        else:
            piece += c
    pieces += [piece] if piece.strip() else []
    return [one_spelling(p.strip()) for p in pieces], re.sub(r"\s+", "", results)


def one_spelling(argument):
    kind, default = argument.split(" ")[0], None
    if "=" in argument:
        argument, default = argument.split("=", 1)
        argument, default = argument.strip(), default.strip()
        if kind.rstrip("?") in ("float", "Scalar"):
            try:
                default = repr(float(default))
            except ValueError:
                pass  # None
        elif default[:1] in "'\"":
            default = '"' + default[1:-1] + '"'
        else:
            default = NAMED.get(default, default.replace(" ", ""))
            same = re.fullmatch(r"\[(\w+)(?:,\1)*\]", default)
            default = same[1] if same and re.search(r"\[\d+\]", kind) else default
    # What a registered schema prints for a name of a dimension.
    argument = re.sub(r"^Dimname\b", "str", argument)
    return argument if default is None else f"{argument}={default}"


def registered(library):
    """Operator (with ".overload") -> its texts "(…) -> …", of the bytes of a libtorch_npu.so."""
    found, at = {}, 0
    while (at := library.find(ARROW, at)) >= 0:
        begin, end = library.rfind(b"\0", 0, at) + 1, library.find(b"\0", at)
        match = REGISTERED.fullmatch(library, begin, end) if end - begin < 10000 else None
        at = at + len(ARROW) if match is None else end
        if match and match[2].decode("utf-8", "replace") not in found.setdefault(match[1].decode(), []):
            found[match[1].decode()].append(match[2].decode("utf-8", "replace"))
    return found


def called():
    """Operator -> the texts that titan can call, from the string constants of src/ops/npu*.cpp."""
    found = {}
    for file in sorted((ROOT / "src/ops").glob("npu*.cpp")):
        for literal in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', file.read_text()):
            text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literal[0])).replace('\\"', '"')
            match = re.fullmatch(r"npu::([\w.]+)(\(.*\) -> .+)", text)
            if match:
                found.setdefault(match[1], []).append(match[2])
    return found


def difference(name, ours, theirs, version):
    """One line, or None when one of the texts that titan knows is the registered one."""
    if not theirs:
        return f"npu::{name}: torch_npu {version} does not have this operator"
    if len(theirs) > 1:
        return f"npu::{name}: torch_npu {version} holds {len(theirs)} texts of this name: {theirs}"
    there, results = arguments(theirs[0])
    known = [arguments(text) for text in ours]
    if (there, results) in known:
        return None
    here, own_results = known[0]
    for i in range(max(len(here), len(there))):
        a = there[i] if i < len(there) else "nothing"
        b = here[i] if i < len(here) else "nothing"
        if a != b:
            return f"npu::{name}: argument {i + 1} is '{a}' in torch_npu {version}, titan calls it with '{b}'"
    return f"npu::{name}: torch_npu {version} returns {results}, titan takes {own_results}"


def differences(library, version):
    there, ours = registered(library), called()
    if len(there) < 100 or not ours:
        sys.exit(f"[npu schemas] error: {len(there)} schemas in torch_npu {version}, {len(ours)} in src/ops — they are written "
                 "in another way now: adapt tools/check_npu_schemas.py")
    lines = [difference(name, texts, there.get(name), version) for name, texts in ours.items()]
    return len(there), [line for line in lines if line]


def table():
    """Version -> (supported by titan, hashes)."""
    rows = {}
    for line in TABLE.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            rows[words[0]] = (words[1] == "supported", [w for w in words[2:]])
    return rows


def newest():
    done = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "torch-npu"], capture_output=True, text=True)
    match = re.search(r"^Available versions: ([\w.]+)", done.stdout, re.MULTILINE)
    return match[1] if match else None


def download(version, hashes, folder):
    requirement = pathlib.Path(folder) / "requirement.txt"
    requirement.write_text(f"torch-npu=={version}" + "".join(f" --hash=sha256:{h}" for h in hashes) + "\n")
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.11",
             "--implementation", "cp", "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64", "-d", folder,
             "-r", requirement] + (["--require-hashes"] if hashes else [])
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        print(f"[npu schemas] error: torch-npu {version} could not be downloaded — {done.stderr.strip().splitlines()[-1]}",
              file=sys.stderr)
        sys.exit(3)
    with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
        return wheel.read(LIBRARY)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    parser.add_argument("--library", type=pathlib.Path)
    a = parser.parse_args()
    if a.library:
        count, lines = differences(a.library.read_bytes(), str(a.library))
        print(f"{a.library}: {count} schemas, {len(lines)} differences", *lines, sep="\n  ")
        return 1 if lines else 0
    rows = table()
    versions = a.versions
    if not versions:
        latest = newest()
        if latest is None:
            sys.exit("[npu schemas] error: pip cannot list the versions of torch-npu — check the network or pip's index settings")
        versions = list(rows) + [latest] * (latest not in rows)
    failed = False
    for version in versions:
        supported, hashes = rows.get(version, (False, []))
        with tempfile.TemporaryDirectory() as folder:
            count, lines = differences(download(version, hashes, folder), version)
        failed = failed or (supported and bool(lines))
        note = "supported" if supported else "not supported" if version in rows else "not in the table"
        print(f"torch_npu {version} ({note}): {count} schemas, "
              f"{f'{len(lines)} differences' if lines else 'none of the called ones differs'}", *lines, sep="\n  ", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
