/** Shell code that applies `.dockerignore` to the unpacked source of a project without a Dockerfile. */

/**
 * Shell function: `leave_out <directory>` removes the files that the patterns in `$IGNORE` exclude (see `ignoredBy`),
 * and excluded directories that become empty. Falls back to busybox, which is all that a small image has.
 */
export const leaveOut = `tool() { if command -v "$1" > /dev/null; then "$@"; else busybox "$@"; fi; }
leave_out() {
  [ -n "\${IGNORE:-}" ] || return 0
  (cd "$1"; find . -type d | sed 's/^/d/'; find . ! -type d | sed 's/^/f/') | tool awk '
    BEGIN { count = split(ENVIRON["IGNORE"], rules, "\\n") }
    {
      path = substr($0, 4)
      if (path == "") next
      out = 0
      for (n = 1; n <= count; n++) if (path ~ substr(rules[n], 2)) out = substr(rules[n], 1, 1) == "-"
      if (out) excluded[++last] = $0
      else if (substr($0, 1, 1) == "f")
        for (above = path; match(above, "/[^/]*$"); ) { above = substr(above, 1, RSTART - 1); used[above] = 1 }
    }
    END {
      for (n = 1; n <= last; n++) {
        path = substr(excluded[n], 4)
        if (substr(excluded[n], 1, 1) == "f" || !(path in used)) print "./" path
      }
    }' > /tmp/mote-excluded
  tool tr '\\n' '\\0' < /tmp/mote-excluded | (cd "$1"; tool xargs -0 rm -rf --)
  echo ".dockerignore excludes $(grep -c '' /tmp/mote-excluded) files and directories"
}
`
