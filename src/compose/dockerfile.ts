/**
 * Writes build arguments into a Dockerfile and cuts it after the target stage, because Mote's builds support neither.
 * The rest is unchanged.
 */

const heredoc = /<<-?\s*["']?([A-Za-z_][A-Za-z0-9_]*)["']?/g

/**
 * Returns the changed text of a Dockerfile.
 * @throws Error if the Dockerfile has no stage named `target`, or a value cannot be written into a Dockerfile
 */
export function fixedDockerfile(
  text: string,
  { args, target }: { readonly args: Readonly<Record<string, string>>; readonly target: string | undefined },
): string {
  const lines: string[] = []
  let stage = -1
  let isTarget = false
  let found = false
  for (const instruction of instructionsOf(text)) {
    const from = /^\s*FROM\s+(?:--\S+\s+)*\S+(?:\s+AS\s+(\S+))?/i.exec(instruction)
    if (from) {
      // Stop after the target stage, which never depends on later stages.
      if (isTarget) break
      stage++
      isTarget = target !== undefined && (from[1]?.toLowerCase() === target.toLowerCase() || target === String(stage))
      found ||= isTarget
    }
    lines.push(/^\s*ARG\s/i.test(instruction) ? withValues(instruction, args) : instruction)
  }
  if (target !== undefined && !found) throw new Error(`The Dockerfile has no stage ${target}.`)
  return lines.join('\n')
}

/**
 * Returns the instructions with their continued lines and here-documents. Comments and empty lines are separate
 * elements.
 */
function instructionsOf(text: string): string[] {
  const lines = text.split('\n')
  const found: string[] = []
  for (let at = 0; at < lines.length; at++) {
    const parts = [lines[at] ?? '']
    const isComment = /^\s*(#|$)/.test(parts[0] ?? '')
    // Comments and empty lines between continued lines do not end the instruction.
    while (
      !isComment &&
      (/\\\s*$/.test(parts.at(-1) ?? '') || (parts.length > 1 && /^\s*(#|$)/.test(parts.at(-1) ?? ''))) &&
      at + 1 < lines.length
    )
      parts.push(lines[++at] ?? '')
    if (/^\s*(RUN|COPY|ADD)\s/i.test(parts[0] ?? ''))
      for (const [, end] of parts.join('\n').matchAll(heredoc))
        while (at + 1 < lines.length) {
          parts.push(lines[++at] ?? '')
          if ((parts.at(-1) ?? '').trim() === end) break
        }
    found.push(parts.join('\n'))
  }
  return found
}

/** Replaces `ARG NAME` and `ARG NAME=default` by one ARG per name, with the given values. */
function withValues(instruction: string, args: Readonly<Record<string, string>>): string {
  const declared =
    instruction
      .replace(/^\s*ARG\s+/i, '')
      .match(/[A-Za-z_][A-Za-z0-9_]*(?:=(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s\\])*)?/g) ?? []
  if (!declared.some(one => Object.hasOwn(args, nameOf(one)))) return instruction
  return declared
    .map(one => {
      const name = nameOf(one)
      return `ARG ${Object.hasOwn(args, name) ? `${name}=${quoted(name, args[name] ?? '')}` : one}`
    })
    .join('\n')
}

const nameOf = (declared: string) => declared.split('=', 1)[0] ?? ''

function quoted(name: string, value: string): string {
  if (/[\r\n]/.test(value))
    throw new Error(`The build argument ${name} has several lines, which a Dockerfile cannot have.`)
  return `"${value.replaceAll(/["\\$]/g, one => `\\${one}`)}"`
}
