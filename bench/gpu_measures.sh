#!/usr/bin/env bash
# All measures on a GPU in one go: the ladders, cuDNN on the same networks, cells beside torch.compile
# and JAX, and bandwidth; recurrences, tiles (resident) and the CPU comparison only if named. Needs
# built programs, `rnnc` and `cudnn_rnn`, in BIN_DIR, NVRTC, cuBLASLt and cuDNN on the library path,
# and python3 with torch and jax (onnxruntime for the CPU).
set -uo pipefail
if [ $# -lt 2 ]; then
  echo "usage: bench/gpu_measures.sh BIN_DIR OUT_DIR [PART...]   (parts: ladder cells bandwidth recurrences resident cpu)" >&2
  exit 2
fi
mkdir -p "$2" || exit 1
bin=$(realpath "$1") out=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.." || exit 1
parts=" ${*:-ladder cells bandwidth} "
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# Runs a command, says how long it took, and goes on if it fails.
measure() {
  local start=$SECONDS
  echo "== ${*##*/}" >&2
  "$@" || { echo "failed: $*" >&2 && failed=1; }
  echo "-- $((SECONDS - start)) s" >&2
}

measure_ladder() { # DTYPE
  local options=(--device cuda --dtype "${1/tf32/f32}" --seconds 0.3)
  [ "$1" = tf32 ] && options+=(--tf32)
  measure "$bin/rnnc" bench ladder "${options[@]}" --json "$scratch/ladder_$1.json" \
    --svg "$out/ladder_$1.svg"
  measure "$bin/cudnn_rnn" "LSTM:4:512:64:100:$1" "LSTM:4:256:64:50:$1" >"$scratch/cudnn_$1.jsonl"
}

{
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader
  if [[ $parts == *" ladder "* ]]; then
    for dtype in f32 tf32 bf16; do measure_ladder "$dtype"; done
  fi
  if [[ $parts == *" cells "* ]]; then
    measure python3 bench/cells_peers.py --rnnc "$bin/rnnc" --json "$scratch/cells_peers.json"
  fi
  if [[ $parts == *" bandwidth "* ]]; then
    measure python3 bench/elementwise_bandwidth.py --rnnc "$bin/rnnc" \
      --json "$scratch/elementwise_bandwidth.json"
  fi
  if [[ $parts == *" recurrences "* ]]; then
    measure python3 bench/recurrences.py --rnnc "$bin/rnnc" --cudnn "$bin/cudnn_rnn" \
      --json "$out/recurrences.json"
    measure python3 bench/plot_recurrences.py "$out/recurrences.json"
    measure python3 bench/compile_times.py --rnnc "$bin/rnnc" --json "$out/compile_times.json"
  fi
  if [[ $parts == *" resident "* ]]; then
    measure python3 bench/tiles.py --rnnc "$bin/rnnc" --json "$out/tiles.json"
    measure python3 bench/ways.py --rnnc "$bin/rnnc" --json "$out/ways.json"
  fi
  if [[ $parts == *" cpu "* ]]; then # on two processors of a machine that does nothing else
    measure taskset -c 0,1 python3 bench/cpu_compare.py --rnnc "$bin/rnnc" --rounds 3 \
      --json "$out/cpu_compare.json"
  fi
  measure python3 bench/gpu_summary.py "$scratch" "$out/gpu_measures.json"
  exit "$failed"
} 2>&1 | tee "$out/gpu_measures.log"
