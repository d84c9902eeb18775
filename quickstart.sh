#!/usr/bin/env bash
# From a bare machine to a language model that has learned English: set-up, build, tokenizer, training, text, report.
#   ./quickstart.sh [--text PATH…] [--steps N] [--output FOLDER]
# --text trains on your own files (plain text, one document a line) instead of the dictionary; --steps shortens the run;
# --output is where everything lands (default outputs/quickstart). Run again to start over; an interrupted training is
# taken up where it stopped.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"
output=outputs/quickstart
steps=2400
texts=()
usage() { sed -n '2,6s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
  case $1 in
    --text) shift; while [ $# -gt 0 ] && [[ $1 != --* ]]; do texts+=("$1"); shift; done
            [ ${#texts[@]} -gt 0 ] || { echo "quickstart: --text needs at least one file" >&2; exit 2; } ;;
    --steps) steps=${2:?--steps needs a number}; shift 2 ;;
    --output) output=${2:?--output needs a folder}; shift 2 ;;
    -h|--help) usage; exit 0 ;;
    *) echo "quickstart: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
[[ $steps =~ ^[1-9][0-9]*$ ]] || { echo "quickstart: --steps $steps is not a number of at least 1" >&2; exit 2; }
for text in ${texts[@]+"${texts[@]}"}; do
  [ -r "$text" ] || { echo "quickstart: cannot read $text — check the path after --text" >&2; exit 2; }
done

begin=$SECONDS
number=0
step_begin=$SECONDS
step() { number=$((number + 1)); step_begin=$SECONDS; printf '\n== %d/7 %s\n' "$number" "$*"; }
finished() { printf '   done in %d s\n' $((SECONDS - step_begin)); }
trap 'code=$?; [ $code = 0 ] || printf "\nquickstart: FAILED in step %d/7 (exit code %d) after %d s\n" "$number" "$code" $((SECONDS - begin)) >&2' EXIT

step "set-up: system packages, libtorch, Arrow (tools/setup.sh)"
tools/setup.sh
finished

step "build: build/titan"
tools/build.sh titan
finished

titan=build/titan
run=$output/run
mkdir -p "$output/text"

step "text: training and validation files"
if [ ${#texts[@]} -gt 0 ]; then python3 tools/quickstart_text.py "$output/text" --text "${texts[@]}"
else python3 tools/quickstart_text.py "$output/text"; fi
finished

step "tokenizer: 2,048 pieces by byte-pair encoding"
$titan tokenizer train --vocab-size 2048 --output "$output/tokenizer" "$output/text/train.txt"
finished

step "training: $steps steps on this machine's CPU"
# A finished run is started over, an interrupted one goes on from its last checkpoint.
if grep -q '"status": *"finished"' "$run/run.json" 2>/dev/null || [ "$(cat "$run/.steps" 2>/dev/null)" != "$steps" ]; then
  rm -rf "$run"
fi
mkdir -p "$run"
echo "$steps" >"$run/.steps"
$titan train configs/quickstart.toml --job.dump_folder "$run" --model.hf_assets_path "$output/tokenizer" \
  --training.dataset_path "$output/text/train.txt" --validation.dataset_path "$output/text/validation.txt" \
  --training.steps "$steps"
finished

step "text from the model: titan generate"
$titan generate --checkpoint "$run" --tokenizer "$output/tokenizer" --prompt_file configs/quickstart_prompts.txt \
  --max_new_tokens 150 --temperature 0.5 --top_k 40 --seed 1 --output "$run/generated.txt"
if [ ${#texts[@]} = 0 ] && [ "$steps" -ge 2400 ]; then
  python3 tools/quickstart_check.py "$run" "$output/text/train.txt"
fi
finished

step "report: titan report"
$titan report "$run"
finished

printf '\nquickstart: OK in %d s — open %s in a browser\n' $((SECONDS - begin)) "$run/report.html"
