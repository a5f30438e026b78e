/**
 * Bash completion without dependencies: the script of the completion library needs the package bash-completion, which
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
