# SPDX-License-Identifier: Apache-2.0
# bash completes options, files, and then the names of the variables in the file: `source lodinfo.bash`, or installed
# where bash-completion looks.
_lodinfo() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} word files=1
  local -a operands=()
  COMPREPLY=()
  # An equals sign is a word of its own.
  [[ $current == = ]] && previous='=' current=''
  if [[ $previous == = ]]; then
    [[ ${COMP_WORDS[*]} != *--color* ]] || mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$current")
    return
  fi
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help | grep -oE '^  --[a-z-]+')" -- "$current")
    return
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word != --diff ]] || files=2
    [[ $word == -* ]] || operands+=("$word")
  done
  # Names of files are bash's own business.
  ((${#operands[@]} == files)) || return
  local IFS=$'\n'
  mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --json "${operands[0]}" 2>/dev/null |
    grep -oE '"name":"[^"\]*"' | cut -d '"' -f 4)" -- "$current")
}
complete -o default -F _lodinfo lodinfo
