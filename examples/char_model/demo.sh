#!/bin/sh
# Two character models on real text: a small one learns for some seconds; a trained one shows how well
# it predicts beside PyTorch, how fast, and what it writes.
#
#     examples/char_model/demo.sh BUILD_FOLDER [cpu|cuda]
set -eu
build=$1
device=${2:-cpu}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "\$ train_charlm --steps 300 --device $device    # from random params"
"$build/examples/train_charlm" --steps 300 --report 60 --device "$device"
echo
echo "Ecclesiastes (King James Bible), held out of training, on $device:"
"$build/examples/char_tool" encode "$here/vocabulary.txt" "$here/excerpt.txt" "$scratch/x.npy"
echo "\$ rnnc run char_lm.rnn --cell CharLM --weights char_lm.safetensors --device $device" \
  "--input x=x.npy --output y=y.npy --time"
"$build/tools/rnnc" run "$here/char_lm.rnn" --cell CharLM --weights "$here/char_lm.safetensors" \
  --device "$device" --input x="$scratch/x.npy" --output y="$scratch/y.npy" --time
bits=$(
  "$build/examples/char_tool" score "$here/vocabulary.txt" "$here/excerpt.txt" "$scratch/y.npy"
)
torch=$(awk -F '[:,]' '/"bits_per_character"/ { printf "%.4f", $2 }' "$here/torch_result.json")
echo "rnnc:    $bits bits per character"
echo "PyTorch: $torch bits per character (float64, the same weights and text)"
echo
echo "\$ embed_cpp char_model    # a C++ program that embeds rnnc, on the CPU"
"$build/examples/embed_cpp" "$here"
