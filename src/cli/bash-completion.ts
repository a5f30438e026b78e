/**
 * Completion for bash that needs nothing but bash: the script of the library wants the package bash-completion, which
 * many servers do not have.
 */
export const bashCompletion = `# bash completion for mote
_mote() {
  local word description
  COMPREPLY=()
  while IFS=$'\\t' read -r word description; do
    [[ $word == :* || $word != "\${COMP_WORDS[COMP_CWORD]}"* ]] || COMPREPLY+=("$word")
  done < <(mote complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _mote mote
`
