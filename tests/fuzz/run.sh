#!/usr/bin/env bash
# Runs every fuzz target for SECONDS on a copy of its corpus; finds are left in the build folder.
#   tests/fuzz/run.sh BUILD_FOLDER SECONDS
set -euo pipefail
programs=$1 seconds=$2
corpora=$(cd "$(dirname "$0")" && pwd)/corpus
for program in "$programs"/fuzz_*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  name=$(basename "$program")
  work=$programs/work/$name
  mkdir -p "$work"
  cp -n "$corpora/${name#fuzz_}"/* "$work/" 2>/dev/null || true
  dictionary=()
  [ -e "$corpora/../${name#fuzz_}.dict" ] && dictionary=(-dict="$corpora/../${name#fuzz_}.dict")
  echo "== $name, $seconds s"
  "$program" "${dictionary[@]}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$programs/work/$name-" "$work" 2>&1 | grep -E '^stat::|ERROR|SUMMARY|BINGO' || true
  if compgen -G "$programs/work/$name-*" >/dev/null; then
    echo "$name found: $(ls "$programs/work/$name-"*)"
    exit 1
  fi
done
