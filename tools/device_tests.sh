#!/bin/sh
# Tests titan on the accelerator of this machine and measures a few models. Works from a checkout and from a bundle
# (tools/bundle.sh), needs python3 and no network, asks nothing, and takes a few minutes.
#   tools/device_tests.sh [--device cuda] [--out FOLDER] [--no-bench | --bench-only] [--only WORDS] [--budget SECONDS] [--titan BINARY]
# Everything that was run, its output and the results lie in FOLDER (default: device_tests_out). Exit code 1: a test failed.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/device_tests.py" "$@"
