#!/usr/bin/env bash
# run.sh PYTHON: the tests of each file in a process of its own, as many at once as there are
# processors; the largest files first, which take longest. What they say comes file by file.
set -euo pipefail
python=$(realpath -s "$(command -v "$1")") # of a virtual environment: not what it links to
cd "$(dirname "$0")"

run_file() { # FILE
  local log status=0
  log=$(mktemp)
  echo "== $1" >"$log"
  "$python" -m unittest discover -p "$1" >>"$log" 2>&1 || status=1
  cat "$log"
  rm "$log"
  return $status
}
export -f run_file
export python
# Threads that wait for work leave the processor to the other process.
export OMP_WAIT_POLICY=passive
ls -S test_*.py | xargs -P "$(nproc)" -I '{}' bash -c 'run_file {}'
