# Completes rnnc's command lines in bash; made by `rnnc completion bash`.

_rnnc() {
  # Bash breaks words at = and :, which belong to words of rnnc.
  local IFS=$' \t\n' words=("") word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $word == [=:]* || ${words[-1]} == *[=:] ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  word=${words[-1]}
  local kept=${word%"${word##*[=:]}"} kind before line file
  COMPREPLY=()
  {
    read -r kind before
    while IFS=$'\t' read -r line _; do COMPREPLY+=("${line#"$kept"}"); done
  } < <("$1" __complete "${words[@]:1}" 2>/dev/null)
  if [[ $kind == files ]]; then
    compopt -o filenames
    while IFS= read -r file; do
      file=$before$file
      COMPREPLY+=("${file#"$kept"}")
    done < <(compgen -f -- "${word#"$before"}")
  fi
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}

complete -F _rnnc rnnc
