#!/usr/bin/env bash
# Cross-compiles titan for aarch64 on an x86_64 Debian machine and runs `titan --version` and `titan doctor` in emulation.
#   tools/cross_aarch64.sh [--jobs N]      default: 1 job, at low priority
# Needs root (or sudo) once, for the cross compiler and qemu. Everything else goes to build-aarch64/:
#   sysroot/  arm64 packages of the libraries that tools/setup.sh lists     site/  the aarch64 wheels
#   build/    the binary and its module
# It shows that the code compiles, links and starts; emulated speed says nothing about the chip.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$root/build-aarch64
sysroot=$work/sysroot
jobs=1
[ "${1:-}" = --jobs ] && jobs=$2

say() { printf '[aarch64] %s\n' "$*"; }
die() { printf '[aarch64] error: %s\n' "$*" >&2; exit 3; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -E "$@"; fi; }

install_tools() {
  local missing=() package
  for package in g++-aarch64-linux-gnu qemu-user-static cmake ninja-build pkg-config unzip python3-pip; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  say "installing ${missing[*]}"
  as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# The development packages of tools/setup.sh for arm64, unpacked into $sysroot. apt works in folders of its own, so the
# machine's package state and architectures stay as they are.
make_sysroot() {
  local packages stamp=$sysroot/.stamp
  packages=$(sed -n '/^apt_packages=(/,/)/p' "$root/tools/setup.sh" | tr -d '()' | tr ' ' '\n' | grep -E -- '-dev$' | sort)
  packages="$packages libc6-dev libstdc++-$(aarch64-linux-gnu-g++ -dumpversion)-dev"
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$packages" ]; then return; fi
  rm -rf "$sysroot"
  mkdir -p "$sysroot" "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial"
  : >"$work/apt/state/status"
  local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$work/apt/state"
    -o Dir::State::status="$work/apt/state/status" -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User="$(id -un)"
    -o Debug::NoLocking=1)
  "${apt[@]}" update
  # shellcheck disable=SC2086
  "${apt[@]}" install -y --no-install-recommends --download-only $packages >/dev/null
  local deb
  for deb in "$work"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$sysroot"; done
  rm -rf "$work/apt"
  echo "$packages" >"$stamp"
  say "sysroot: $(du -sh "$sysroot" | cut -f1)"
}

install_wheels() {
  local stamp=$work/site/.stamp want n tags=()
  want=$(sha256sum <"$root/tools/requirements.txt")
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then return; fi
  for n in 17 24 25 27 28 31 34 35; do tags+=(--platform "manylinux_2_${n}_aarch64"); done
  say "downloading the aarch64 wheels (about 490 MB)"
  python3 -m pip download -q --no-deps --require-hashes --only-binary=:all: --python-version 3.11 --implementation cp \
    "${tags[@]}" --platform manylinux2014_aarch64 -d "$work/wheels" -r "$root/tools/requirements.txt" \
    || die "pip could not download the wheels"
  rm -rf "$work/site"
  mkdir -p "$work/site"
  local wheel
  for wheel in "$work"/wheels/*.whl; do unzip -q -o "$wheel" -d "$work/site"; done
  rm -rf "$work/wheels"
  echo "$want" >"$stamp"
}

build() {
  export PKG_CONFIG_SYSROOT_DIR=$sysroot
  export PKG_CONFIG_LIBDIR=$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig:$sysroot/usr/share/pkgconfig
  nice -n 19 cmake -S "$root" -B "$work/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64_toolchain.cmake" \
    -DTITAN_SYSROOT="$sysroot" -DTITAN_DEPS="$work" -DTITAN_TORCH= -DTITAN_BUILD_TESTS=OFF -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=4 >"$work/configure.log" \
    || { tail -30 "$work/configure.log"; die "cmake failed"; }
  nice -n 19 cmake --build "$work/build" -j "$jobs"
}

begin=$SECONDS
install_tools
make_sysroot
install_wheels
say "ready to build after $((SECONDS - begin)) s"
build
binary=$work/build/titan
say "built after $((SECONDS - begin)) s: $(stat -c %s "$binary") bytes, $(readelf -h "$binary" | sed -n 's/ *Machine: *//p')"
for words in --version doctor; do
  say "titan $words under qemu:"
  QEMU_LD_PREFIX=$sysroot OMP_NUM_THREADS=1 nice qemu-aarch64-static "$binary" $words || die "titan $words failed in emulation"
done
say "done after $((SECONDS - begin)) s"
