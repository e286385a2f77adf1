#!/usr/bin/env bash
# docs/glossary.md: its words are in order, each once, and each is linked to files that have it.
set -euo pipefail
cd "$(dirname "$0")/.."

failures=0
complain() {
  echo "docs/glossary.md: $*"
  failures=1
}

words=()
while IFS='|' read -r _ word _ links _; do
  word=$(sed 's/^ *//; s/ *$//' <<<"$word")
  case $word in word | ---) continue ;; esac
  words+=("$word")
  found=0
  while read -r file; do
    if [ ! -e "$file" ]; then
      complain "'$word' is linked to $file, which is not there"
    # A word's stem (`packed` is a form of `pack`), without what it is of; of several words any.
    elif sed 's/ *(.*)//; s/, /\n/g' <<<"$word" | sed 's/e\?d\?$//; s/ /[ _]\\?/g' |
      grep -qif - "$file"; then
      found=1
    fi
  done < <(grep -oE '\(\.\./[^)]*\)|\([a-z_]+\.md\)' <<<"$links" | tr -d '()' | sed 's|^\.\./||; t; s|^|docs/|')
  [ $found = 1 ] || complain "no file that '$word' is linked to has it"
done < <(grep '^| ' docs/glossary.md)

[ "${#words[@]}" -ge 50 ] || complain "has only ${#words[@]} words"
[ -z "$(printf '%s\n' "${words[@]}" | sort | uniq -d)" ] || complain "has a word twice"
if ! printf '%s\n' "${words[@]}" | LC_ALL=C sort -cf; then complain "is out of order"; fi
exit $failures
