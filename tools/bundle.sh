#!/usr/bin/env bash
# Packs the built binary, its device modules and every library that is not libtorch's into one folder and one archive
# that runs on another machine of the same architecture with its own torch.
#   tools/bundle.sh [BUILD_FOLDER [ARCHIVE]]     default: build, dist/titan-<version>-<machine>.tar.zst
# An archive name that ends in .tar.gz or .tar.xz picks that compression.
#
# On the other machine: unpack, then ./titan doctor. ./titan is a small script that finds torch (TITAN_TORCH, else the
# one `python3` would import) and starts bin/titan with it. It needs glibc and libstdc++ no older than the ones noted in
# BUNDLE.txt (Ubuntu 24.04 has newer ones than Debian 12).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
machine=$(uname -m)
limit=$((64 * 1024 * 1024))

say() { printf '[bundle] %s\n' "$*"; }
die() { printf '[bundle] error: %s\n' "$*" >&2; exit 3; }

[ -x "$build/titan" ] || die "no titan in $build — build it first: cmake --build --preset release"
version=$("$build/titan" --version | sed -n 's/^titan //p')
torch_version=$("$build/titan" --version | sed -n 's/^torch //p')
name=titan-$version-$machine
archive=${2:-$root/dist/$name.tar.zst}
mkdir -p "$(dirname "$archive")"
archive=$(cd "$(dirname "$archive")" && pwd)/$(basename "$archive")
folder=$(mktemp -d)/$name
trap 'rm -rf "$(dirname "$folder")"' EXIT
mkdir -p "$folder/bin" "$folder/lib"

# Of the C and C++ run-time the other machine's own copies are used: newer ones serve, mixed ones do not.
system_library() {
  case $(basename "$1") in
    ld-linux*|libc.so*|libm.so*|libdl.so*|librt.so*|libpthread.so*|libutil.so*|libresolv.so*|libstdc++.so*|libgcc_s.so*|linux-vdso*) return 0 ;;
  esac
  return 1
}
torch_library() { case $1 in */torch/lib/*|*/nvidia/*) return 0 ;; esac; return 1; }

copy_files() {
  local file
  for file in "$build/titan" "$build"/libtitan_*.so; do [ -e "$file" ] && cp "$file" "$folder/bin/"; done
  ldd "$build/titan" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | while read -r file; do
    system_library "$file" || torch_library "$file" || cp -L "$file" "$folder/lib/"
  done
  strip --strip-unneeded "$folder"/lib/*.so* "$folder"/bin/*.so 2>/dev/null || true
  strip "$folder/bin/titan"
  cp "$root/LICENSE" "$folder/"
  local optional
  for optional in README.md configs docs tools/device_tests.sh tools/device_tests.py; do
    [ -e "$root/$optional" ] || continue
    mkdir -p "$folder/$(dirname "$optional")"
    cp -r "$root/$optional" "$folder/$optional"
  done
}

write_launcher() {
  sed -e "s|@TORCH_VERSION@|${torch_version%%+*}|" >"$folder/titan" <<'LAUNCHER'
#!/bin/sh
# Starts bin/titan with the torch of this machine: TITAN_TORCH (its package folder), else the one python3 would import.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
built_for=@TORCH_VERSION@
torch=${TITAN_TORCH:-}
if [ -z "$torch" ]; then
  torch=$(python3 -c 'import importlib.util, os
spec = importlib.util.find_spec("torch")
print(os.path.dirname(spec.origin) if spec and spec.origin else "")' 2>/dev/null)
fi
if [ ! -f "$torch/lib/libtorch_cpu.so" ]; then
  echo "titan: [launcher] no torch found: pip install torch==$built_for, or set TITAN_TORCH to a torch package folder" >&2
  exit 3
fi
# Not a link: libtorch's libraries look for CUDA's beside the folder they really lie in.
torch=$(cd "$torch" && pwd -P)
found=$(sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$torch/version.py")
if [ "${found%.*}" != "${built_for%.*}" ]; then
  echo "titan: [launcher] this build is for torch $built_for, $torch holds $found: install torch $built_for, or build titan for yours" >&2
  exit 3
fi
path=$here/lib:$torch/lib
for folder in "$torch"/../nvidia/*/lib; do [ -d "$folder" ] && path=$path:$folder; done
LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/bin/titan" "$@"
LAUNCHER
  chmod +x "$folder/titan"
}

# The newest symbol version of a library ("GLIBC", "GLIBCXX") that any file of the bundle asks for.
newest() {
  objdump -T "$folder"/bin/* "$folder"/lib/* 2>/dev/null | grep -o "$1_[0-9.]*" | sort -Vu | tail -1
}

# Every library that the binary loads must come from the bundle, from torch or from the C/C++ run-time, also when the
# loader's cache of system folders is not used.
check_closure() {
  local torch_lib paths stray
  torch_lib=$(ldd "$build/titan" | awk '$1 == "libtorch_cpu.so" {print $3}')
  torch_lib=$(cd "$(dirname "$torch_lib")" && pwd -P)
  paths=$folder/lib:$torch_lib
  for nvidia in "$torch_lib"/../../nvidia/*/lib; do [ -d "$nvidia" ] && paths=$paths:$nvidia; done
  stray=$(LD_LIBRARY_PATH=$paths "$(readelf -l "$folder/bin/titan" | sed -n 's/.*interpreter: \(.*\)]/\1/p')" \
    --inhibit-cache --list "$folder/bin/titan" | awk '$2 == "=>" {print $1, $3}' \
    | while read -r library path; do
        [ "$path" = not ] && { echo "$library (not found)"; continue; }
        case $path in "$folder"/*) continue ;; esac
        system_library "$path" || torch_library "$path" || echo "$path"
      done)
  [ -z "$stray" ] || die "the bundle would use libraries it does not hold: $stray"
  TITAN_TORCH=$(dirname "$torch_lib") "$folder/titan" --version >/dev/null || die "the bundled binary does not start"
}

compress() {
  case $archive in
    *.tar.gz) tar -C "$(dirname "$folder")" -cf - "$name" | gzip -9 >"$archive.partial" ;;
    *.tar.xz) tar -C "$(dirname "$folder")" -cf - "$name" | xz -6 >"$archive.partial" ;;
    *) tar -C "$(dirname "$folder")" -cf - "$name" | zstd -q -12 -f -o "$archive.partial" ;;
  esac
  mv "$archive.partial" "$archive"
}

copy_files
write_launcher
check_closure
{
  "$build/titan" --version
  printf 'needs: %s, %s, torch %s\n' "$(newest GLIBC)" "$(newest GLIBCXX)" "$torch_version"
  (cd "$folder" && sha256sum bin/* lib/*)
} >"$folder/BUNDLE.txt"
compress
size=$(stat -c %s "$archive")
say "$(sed -n 's/^needs: /needs /p' "$folder/BUNDLE.txt")"
say "$archive: $size bytes ($(du -sh "$folder" | cut -f1) unpacked)"
[ "$size" -lt "$limit" ] || die "the archive is larger than 64 MiB"
