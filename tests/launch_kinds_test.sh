#!/usr/bin/env bash
# A kind of launch is at home in few files (ir/plan/launches/README.md): its own, which are called after
# it, and at most four others. Passes choose kinds, and the cost model knows their time: they name what
# they like.
set -euo pipefail
cd "$(dirname "$0")/.."

# Other kinds are made of these, or they are a whole way to run: they are everywhere.
everywhere=" Elementwise Gemm Fused Recurrence "

mapfile -t kinds < <(tr '\n' ' ' <ir/plan/plan.h | grep -oE 'using Launch = std::variant<[^>]*>' |
  grep -oE '[A-Za-z]+Launch\b' | sed 's/Launch$//')
if [ "${#kinds[@]}" -lt 10 ]; then
  echo "ir/plan/plan.h has only these kinds of launches: ${kinds[*]}"
  exit 1
fi

failures=0
for kind in "${kinds[@]}"; do
  case "$everywhere" in *" $kind "*) continue ;; esac
  others=$(grep -rlw --include='*.h' --include='*.cpp' "${kind}Launch" ir codegen runtime tools |
    grep -vE "^ir/plan/launches/|[/_]${kind,,}[^/]*$")
  if [ "$(wc -l <<<"$others")" -gt 4 ]; then
    echo "${kind}Launch is named by more than four files besides its own:"
    echo "$others"
    failures=1
  fi
done
exit $failures
