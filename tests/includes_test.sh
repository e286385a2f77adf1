#!/usr/bin/env bash
# Includes point one way, along the compiler's order, and each outside library is seen by one folder.
set -euo pipefail
cd "$(dirname "$0")/.."
failures=0

# may_include FOLDER ALLOWED…: files below FOLDER include only from the allowed folders.
may_include() {
  local folder=$1 allowed
  shift
  allowed=$(IFS='|'; echo "$*")
  local bad
  bad=$(grep -rnE '^#include "' --include='*.h' --include='*.cpp' --include='*.cuh' "$folder" |
    grep -vE "#include \"($allowed)/" || true)
  if [ -n "$bad" ]; then
    echo "$folder may include only from: $*"
    echo "$bad"
    failures=1
  fi
}

# seen_only PATTERN FOLDER…: system headers matching PATTERN are included only below the folders.
seen_only() {
  local pattern=$1
  shift
  local bad allowed
  allowed=$(IFS='|'; echo "$*")
  bad=$(grep -rnE "^#include [<\"]($pattern)" --include='*.h' --include='*.cpp' \
    frontend ir passes codegen runtime tools examples | grep -vE "^($allowed)/" || true)
  if [ -n "$bad" ]; then
    echo "only $* may include $pattern"
    echo "$bad"
    failures=1
  fi
}

may_include ir ir
may_include frontend ir frontend
may_include passes ir passes
may_include codegen/cpu ir codegen/cpu
may_include codegen/cuda ir codegen/cuda
may_include runtime/cpu ir codegen/cpu runtime
may_include runtime/cuda ir codegen/cuda runtime
may_include runtime ir frontend passes codegen runtime
may_include examples ir frontend runtime examples
seen_only 'llvm' codegen/cpu
seen_only 'nvrtc' codegen/cuda
seen_only 'cuda_runtime|cublas' runtime/cuda
exit $failures
