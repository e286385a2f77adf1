#compdef rnnc
# Completes rnnc's command lines in zsh; made by `rnnc completion zsh`.

_rnnc() {
  local -a lines described unspaced
  local line first
  lines=("${(@f)$("$words[1]" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  first=$lines[1]
  shift lines
  for line in $lines; do
    if [[ ${line%%$'\t'*} == *= ]]; then
      unspaced+=("${line%%$'\t'*}")
    else
      described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done
  (( $#described )) && _describe 'rnnc' described
  (( $#unspaced )) && compadd -S '' -a unspaced
  if [[ $first == files* ]]; then
    compset -P "${(b)${first#files }}"
    _files
  fi
}

if [[ $funcstack[1] == _rnnc ]]; then _rnnc "$@"; else compdef _rnnc rnnc; fi
