#!/usr/bin/env bash
# Brings everything a build of titan needs onto this machine: system packages (apt or dnf) and the wheels that hold
# libtorch and Arrow, pinned by hash, into .deps/. Safe to run again: what is there is kept, nothing is downloaded twice.
#   tools/setup.sh [--tests] [--npu]
#     --tests  adds what the test suite needs (headless browser, reference tokenizers)
#     --npu    adds the Ascend adapter (torch_npu) into .deps/npu; TITAN_TORCH_NPU=<folder> uses an installed one instead
# TITAN_TORCH=<folder of an installed torch package> uses that libtorch instead of the wheel.
# TITAN_DEPS=<folder> puts the wheels elsewhere (default: .deps beside this checkout).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=${TITAN_DEPS:-$root/.deps}
site=$deps/site
with_tests=0
with_npu=0

say() { printf '[setup] %s\n' "$*"; }
die() { printf '[setup] error: %s\n' "$*" >&2; exit 3; }

for option in "$@"; do
  case $option in
    --tests) with_tests=1 ;;
    --npu) with_npu=1 ;;
    *) die "unknown option $option — see the head of tools/setup.sh" ;;
  esac
done

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo -E "$@"
  else die "needs root to install: $* — run it as root, install sudo, or install the packages yourself"; fi
}

apt_packages=(g++ cmake ninja-build mold ccache git pkg-config unzip python3 python3-pip
  libsentencepiece-dev libpcre2-dev libutf8proc-dev libzstd-dev zlib1g-dev libxxhash-dev
  libcurl4-openssl-dev libgtest-dev libgmock-dev libbenchmark-dev libspdlog-dev libfmt-dev libcli11-dev libyaml-cpp-dev
  libtomlplusplus-dev nlohmann-json3-dev libgloo-dev libjs-chart.js dict-gcide)
apt_test_packages=(chromium fonts-dejavu-core python3-venv)
# openEuler and Fedora, not tested there. Libraries by what CMake asks for, because the two name their packages differently.
dnf_packages=(gcc-c++ cmake ninja-build git unzip python3 python3-pip /usr/bin/pkg-config
  'pkgconfig(sentencepiece)' 'pkgconfig(libpcre2-8)' 'pkgconfig(libutf8proc)' 'pkgconfig(libzstd)' 'pkgconfig(zlib)'
  'pkgconfig(libxxhash)' 'pkgconfig(libcurl)' 'pkgconfig(gtest)' 'pkgconfig(gmock)' 'pkgconfig(spdlog)' 'pkgconfig(fmt)'
  'pkgconfig(yaml-cpp)' 'pkgconfig(nlohmann_json)')
dnf_optional=(mold ccache)  # faster builds; openEuler has mold from 24.03 SP1 on
# What openEuler has no package of: headers alone, from the projects at a fixed commit, into .deps/headers.
headers=(
  "CLIUtils/CLI11 70f8072f9dd2292fd0b9f9e5f58e279f60483ed3"          # 2.1.2
  "marzer/tomlplusplus c635f218c0aefc801d9748841930365e54fe3089"     # 3.3.0
  "pytorch/gloo 5b143513263133af2b95547e97c07cebeb72bf72"            # the one Debian 12 has
)

install_apt() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && { say "system packages: all $# present"; return; }
  say "system packages: installing ${#missing[@]} of $#: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -qq
  # A missing optional package must not hide a missing necessary one, so apt's own error is what the user sees.
  as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# TITAN_GIT=<address> takes the place of https://github.com, for a mirror.
install_headers() {
  local folder=$deps/headers row project commit source
  for row in "${headers[@]}"; do
    read -r project commit <<<"$row"
    source=$folder/source/${project#*/}
    [ "$(cat "$source.stamp" 2>/dev/null)" = "$commit" ] && continue
    say "headers: $project"
    rm -rf "$source"
    git init -q "$source"
    git -C "$source" fetch -q --depth 1 "${TITAN_GIT:-https://github.com}/$project" "$commit" \
      || die "cannot fetch $project — check the network, or set TITAN_GIT to a mirror of github.com"
    git -C "$source" -c advice.detachedHead=false checkout -q FETCH_HEAD
    if [ "$project" = pytorch/gloo ]; then copy_gloo_headers "$source" "$folder/include"
    else
      cmake -S "$source" -B "$source/build" -DCMAKE_INSTALL_PREFIX="$folder" -DBUILD_TESTING=OFF -DCLI11_BUILD_TESTS=OFF \
        -DCLI11_BUILD_EXAMPLES=OFF -DCLI11_BUILD_DOCS=OFF --no-warn-unused-cli >/dev/null
      cmake --install "$source/build" >/dev/null
    fi
    echo "$commit" >"$source.stamp"
  done
}

# Gloo's code is inside libtorch; its headers want a config.h, of which only the TCP transport matters here.
copy_gloo_headers() {
  local source=$1 include=$2 header
  mkdir -p "$include"
  (cd "$source" && find gloo -name '*.h' | while IFS= read -r header; do install -D -m 644 "$header" "$include/$header"; done)
  sed -e 's/@GLOO_VERSION_MAJOR@/0/; s/@GLOO_VERSION_MINOR@/5/; s/@GLOO_VERSION_PATCH@/0/' \
    -e 's/#cmakedefine01 GLOO_HAVE_TRANSPORT_TCP$/#define GLOO_HAVE_TRANSPORT_TCP 1/; s/#cmakedefine01 \([A-Z_]*\)/#define \1 0/' \
    "$source/gloo/config.h.in" >"$include/gloo/config.h"
}

install_system() {
  if [ "${TITAN_SKIP_PACKAGES:-0}" = 1 ]; then say "system packages: skipped (TITAN_SKIP_PACKAGES=1)"; return; fi
  if command -v apt-get >/dev/null; then
    if [ $with_tests = 1 ]; then
      # Ubuntu's chromium package only installs a snap, which a container cannot run.
      if [ "$(. /etc/os-release && echo "$ID")" = ubuntu ]; then apt_test_packages=(fonts-dejavu-core python3-venv); fi
      install_apt "${apt_packages[@]}" "${apt_test_packages[@]}"
    else install_apt "${apt_packages[@]}"; fi
  elif command -v dnf >/dev/null; then
    say "system packages: dnf (this list has not been tested)"
    as_root dnf install -y -q "${dnf_packages[@]}" \
      || die "dnf could not install them — openEuler keeps spdlog and nlohmann_json in its EPOL repository: enable it"
    as_root dnf install -y -q --setopt=strict=0 "${dnf_optional[@]}" || say "without: ${dnf_optional[*]}"
    install_headers
  else
    say "system packages: no apt-get and no dnf here; install the list at the top of tools/setup.sh yourself"
  fi
}

# unpack_wheels REQUIREMENTS FOLDER: pinned wheels, unpacked into FOLDER. No Python package is installed: only the libraries
# and headers inside are used.
unpack_wheels() {
  local selected=$1 folder=$2 stamp=$2/.stamp want machine tags=() n
  machine=$(uname -m)
  want=$(cat "$selected" <(echo "$machine") | sha256sum | cut -c1-64)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then say "wheels: present in $folder"; return; fi
  say "wheels: downloading $(grep -c '==' "$selected") wheels for $machine into $folder"
  for n in 17 24 25 27 28 31 34 35; do tags+=(--platform "manylinux_2_${n}_$machine"); done
  tags+=(--platform "manylinux2014_$machine")
  local wheels=$folder.wheels
  mkdir -p "$wheels"
  python3 -m pip download -q --no-deps --require-hashes --only-binary=:all: --python-version 3.11 --implementation cp \
    "${tags[@]}" -d "$wheels" -r "$selected" \
    || die "pip could not download the wheels — check the network or pip's index settings, then run again"
  rm -rf "$folder.partial" "$folder"
  mkdir -p "$folder.partial"
  local wheel
  for wheel in "$wheels"/*.whl; do unzip -q -o "$wheel" -d "$folder.partial"; done
  mv "$folder.partial" "$folder"
  rm -rf "$wheels"
  echo "$want" >"$stamp"
  say "wheels: unpacked into $folder"
}

install_wheels() {
  local requirements=$root/tools/requirements.txt selected=$deps/requirements.selected
  mkdir -p "$deps"
  if [ -n "${TITAN_TORCH:-}" ]; then
    [ -f "$TITAN_TORCH/lib/libtorch_cpu.so" ] || die "TITAN_TORCH=$TITAN_TORCH has no lib/libtorch_cpu.so"
    awk '/^pyarrow/{keep=1} /^[a-z]/&&!/^pyarrow/{keep=0} keep' "$requirements" >"$selected"
  else
    cp "$requirements" "$selected"
  fi
  unpack_wheels "$selected" "$site"
}

install_npu() {
  if [ -n "${TITAN_TORCH_NPU:-}" ]; then
    [ -f "$TITAN_TORCH_NPU/lib/libtorch_npu.so" ] || die "TITAN_TORCH_NPU=$TITAN_TORCH_NPU has no lib/libtorch_npu.so"
    return
  fi
  unpack_wheels "$root/tools/requirements-npu.txt" "$deps/npu"
}

begin=$SECONDS
install_system
install_wheels
[ $with_npu = 0 ] || install_npu
say "ready after $((SECONDS - begin)) s"
