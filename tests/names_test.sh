#!/usr/bin/env bash
# No two types have one name in one namespace: the linker would keep one destructor, or any other
# inline function, for both. Types in unnamed namespaces are their file's own. Formatting puts the
# types of a namespace at the first column, and names namespaces where they end.
set -euo pipefail
cd "$(dirname "$0")/.."

# "NAMESPACE::TYPE FILE" for each definition.
definitions() {
  awk '
    FNR == 1 { depth = 0 }
    /^namespace( [a-z:_]+)? \{/ { spaces[++depth] = $2 == "{" ? "" : $2; next }
    /^\}  \/\/ namespace/ { --depth; next }
    /^(template <[^;]*> )?(struct|class|union|enum|enum class) [A-Za-z_]+( final)?( :[^:;]*)? \{/ {
      where = ""
      for (i = 1; i <= depth; ++i) {
        if (spaces[i] == "") next
        where = where spaces[i] "::"
      }
      sub(/^template <[^;]*> /, "")
      sub(/^enum class/, "enum")
      print where $2, FILENAME
    }' "$@"
}

# of NAME FOLDER…: what is linked into one program has no two types of one name.
failures=0
of() {
  local name=$1 twice files
  shift
  mapfile -t files < <(find "$@" -name '*.h' -o -name '*.cpp' | sort)
  twice=$(definitions "${files[@]}" |
    awk '{ files[$1] = files[$1] " " $2; ++count[$1] }
         END { for (type in count) if (count[type] > 1) print type ":" files[type] }' | sort)
  if [ -n "$twice" ]; then
    echo "types of one name in $name:"
    echo "$twice"
    failures=1
  fi
}

library=(ir frontend passes codegen runtime)
of rnnc "${library[@]}" tools
for folder in tests/*/; do
  folder=${folder%/}
  case $folder in
    tests/fuzz | tests/cell_table | tests/support) ;;
    tests/emulator) of "$folder" "${library[@]}" tests/support tests/emulator tests/gpu ;;
    *) [ -z "$(find "$folder" -name '*.cpp')" ] ||
      of "$folder" "${library[@]}" tests/support "$folder" ;;
  esac
done
exit $failures
