#!/usr/bin/env bash
# The library shows the functions of its header, all of them, and nothing else.
#   symbols_test.sh LIBRARY
set -euo pipefail
header=$(dirname "$0")/../../runtime/capi/rnnc.h
wanted=$(grep -oE '\brnnc_[a-z_]+\(' <<<"$(grep -A1 'RNNC_API' "$header")" | tr -d '(' | sort -u)
shown=$(nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
diff <(echo "$wanted") <(echo "$shown")
