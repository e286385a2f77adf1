#!/usr/bin/env bash
# Includes point one way, along the compiler's order between folders and in each of them between its
# subfolders, and each outside library is seen by one folder.
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

# in_order TOP PLACE…: files of each place include of TOP only what is in it or in those before it. A
# place is a subfolder, or several with commas between; `.` is TOP itself. There are no others. A
# tools/main.cpp may include everything.
in_order() {
  local top=$1 place sub folder found allowed=() places
  shift
  places=" ${*//,/ } "
  while read -r folder; do
    found=${folder#"$top"}
    found=${found#/}
    case "$places" in
      *" ${found:-.} "*) ;;
      *)
        echo "$folder has no place in the order of $top: $*"
        failures=1
        ;;
    esac
  done < <(find "$top" \( -name '*.h' -o -name '*.cpp' \) -exec dirname {} + | sort -u)
  for place in "$@"; do
    local folders=() pattern bad
    for sub in ${place//,/ }; do
      folder=$top/$sub
      [ "$sub" = . ] && folder=$top
      folders+=("$folder")
      allowed+=("$folder/[^/]*\"")
    done
    pattern=$(IFS='|'; echo "${allowed[*]}")
    bad=$(find "${folders[@]}" -maxdepth 1 \( -name '*.h' -o -name '*.cpp' \) \
      ! -path tools/main.cpp -exec grep -HnE "^#include \"$top/" {} + |
      grep -vE "#include \"($pattern)" || true)
    if [ -n "$bad" ]; then
      echo "${folders[*]} may include of $top only what comes before: $*"
      echo "$bad"
      failures=1
    fi
  done
}

may_include ir ir
may_include frontend ir/base ir/graph frontend
may_include passes ir passes
may_include codegen/cpu ir codegen/cpu
may_include codegen/cuda ir codegen/cuda
may_include runtime/cpu ir codegen/cpu runtime
may_include runtime/cuda ir codegen/cuda runtime
may_include runtime ir frontend passes codegen runtime
may_include examples ir frontend runtime examples
in_order ir base graph plan,plan/launches persistent
in_order frontend syntax elaborate .
in_order passes options solver affine graph gradient schedule lower tile cost plan reroll memory persistent .
in_order codegen/cuda device elementwise fused persistent nvrtc .
in_order runtime base arrays weights backend program cpu cuda explain,debug capi
in_order tools cmake lsp . serve,completion commands
seen_only 'llvm' codegen/cpu
seen_only 'nvrtc' codegen/cuda/nvrtc
seen_only 'cuda_runtime|cublas' runtime/cuda
seen_only 'boost/(asio|beast)' tools/serve
exit $failures
