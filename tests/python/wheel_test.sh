#!/usr/bin/env bash
# The wheel as others get it: with NumPy and nothing else.
#   wheel_test.sh WHEEL
set -euo pipefail
wheel=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset RNNC_LIBRARY PYTHONPATH LD_LIBRARY_PATH
export RNNC_CACHE_DIR=$scratch/cache

[ "$(stat -c %s "$wheel")" -le 20000000 ]
python3 -m venv "$scratch/venv"
PATH=$scratch/venv/bin:$PATH
pip install -q --disable-pip-version-check "$wheel"
cd "$scratch"
package=$(python -c 'from importlib.resources import files; print(files("rnnc"))')
[[ $package == "$scratch"/venv/* ]]
diff -r "$root/examples/cells" "$package/cells"
diff -r "$root/examples/networks" "$package/networks"
# What was built says nothing of where.
python -m zipfile -e "$wheel" contents
grep -rlF "$root" contents && exit 1

# Cells beside NumPy.
python "$root/tests/python/test_program.py"
python "$root/tests/python/test_definition.py"
python "$root/tests/python/test_weights.py"

python -c "import rnnc.convert"

# The command.
[ "rnnc $(pip show rnnc | sed -n 's/^Version: //p')" = "$(rnnc --version | cut -d ' ' -f 1-2)" ]
rnnc devices | grep '^cpu'
lstm=("$package/cells/lstm.rnn" --dim I=3 --dim H=4)
rnnc weights "${lstm[@]}" --random -o w.safetensors
rnnc inputs "${lstm[@]}" --batch 2 --steps 5 --random -o x=x.npy
python -m rnnc run "${lstm[@]}" --weights w.safetensors --input x=x.npy --output h=h.npy
python -c 'import numpy; assert numpy.load("h.npy").shape == (5, 2, 4)'
status=0
rnnc chekc 2>/dev/null || status=$?
[ $status = 2 ]
# It ends as commands do: by Ctrl-C, and when nobody reads what it prints.
status=0
sleep 5 | timeout --preserve-status -s INT 2 rnnc check - || status=$?
[ $status = 130 ]
rnnc explain "${lstm[@]}" --html -o - | head -c 1 >first || [ "${PIPESTATUS[0]}" = 141 ]
