#!/usr/bin/env bash
# rnnc as others get it: installed, moved elsewhere, found by CMake and by pkg-config.
#   install_test.sh BUILD_FOLDER
set -euo pipefail
build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

files() { (cd "$1" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort); }

# laid_down COMPONENT: its files, without what the build is called.
laid_down() {
  cmake --install "$build" --prefix "$scratch/$1" --component "$1" >/dev/null
  files "$scratch/$1" | sed 's/Targets-.*/Targets-BUILD.cmake/'
}

diff - <(laid_down command) <<<bin/rnnc
diff - <(laid_down development) <<'FILES'
include/rnnc/rnnc.h
include/rnnc/rnnc.hpp
lib/cmake/rnnc/rnncConfig.cmake
lib/cmake/rnnc/rnncConfigVersion.cmake
lib/cmake/rnnc/rnncTargets-BUILD.cmake
lib/cmake/rnnc/rnncTargets.cmake
lib/librnnc.so
lib/pkgconfig/rnnc.pc
FILES
diff - <(laid_down runtime) <<FILES
lib/librnnc.so.1
lib/librnnc.so.1.0.0
$(cd "$root/examples" && printf 'share/rnnc/%s\n' cells/*.rnn {flax,keras}/*.map networks/*.rnn torch/*.map)
FILES
# All of them, and nothing else, come without naming one.
cmake --install "$build" --prefix "$scratch/all" >/dev/null
mkdir "$scratch/parts" "$scratch/elsewhere"
for component in command development runtime; do
  cp -a "$scratch/$component/." "$scratch/parts"
  rm -r "${scratch:?}/$component"
done
diff <(files "$scratch/parts") <(files "$scratch/all")
rm -r "$scratch/parts"

prefix=$scratch/elsewhere/rnnc
mv "$scratch/all" "$prefix"
grep -rIF -e "$scratch" -e "$root" -e "$build" "$prefix" && exit 1
for file in "$prefix/bin/rnnc" "$prefix/lib/librnnc.so"; do
  readelf -d "$file" | grep -E 'RPATH|RUNPATH' && exit 1
done

# The command, with the cells that came with it.
cd "$scratch"
PATH=$prefix/bin:$PATH
share=$prefix/share/rnnc
rnnc check "$share"/{cells,networks}/*.rnn >/dev/null
lstm=("$share/networks/stacked_lstm.rnn" --dim F=3 --dim H=4)
rnnc weights "${lstm[@]}" --random -o w.safetensors
rnnc inputs "${lstm[@]}" --batch 2 --steps 5 --random -o x=x.npy
rnnc run "${lstm[@]}" --weights w.safetensors --input x=x.npy --output y=y.npy
[ -s y.npy ]

# By find_package.
export CFLAGS='-Wall -Wextra -pedantic -Werror'
export CXXFLAGS="$CFLAGS -Wshadow"
for example in embed_c embed_cpp; do
  cmake -S "$root/examples/$example" -B "$example" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
  cmake --build "$example" >/dev/null
done
learned=$(embed_c/embed_c)
[ "$(tail -n 1 <<<"$learned")" = 'rates: 0.250 0.750' ]
written=$(embed_cpp/embed_cpp "$root/examples/char_model" 100)
[ "${#written}" = 100 ]
grep -q ' the ' <<<"$written"

# By pkg-config.
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
[ "rnnc $(pkg-config --modversion rnnc)" = "$(rnnc --version | cut -d ' ' -f 1-2)" ]
read -ra flags <<<"$(pkg-config --cflags --libs rnnc)"
"${CC:-cc}" -std=c99 "$root/examples/embed_c/main.c" "${flags[@]}" -o by_pkgconfig
[ "$(./by_pkgconfig)" = "$learned" ]
