/** Start commands that a project names in a Procfile or in railpack.json. */
import { objectOr, type Project, stringOr } from './project.ts'
import type { BuildPlan } from './types.ts'

type Line = readonly [name: string, command: string]

const linesOf = (text: string): readonly Line[] =>
  [...text.matchAll(/^([\w-]+):[ \t]*(\S.*)$/gm)].map(([, name = '', command = '']) => [name, command.trim()])

const startedLine = (lines: readonly Line[]): Line | undefined => {
  const processes = lines.filter(([name]) => name !== 'release')
  return lines.find(([name]) => name === 'web') ?? (processes.length === 1 ? processes[0] : undefined)
}

/**
 * Returns the command of `web` in a Procfile, otherwise of its only process. The release command does not count as a
 * process.
 */
export const webProcess = (text: string): string | undefined => startedLine(linesOf(text))?.[1]

/** Returns a log line about the processes of a Procfile that the build does not start. */
export function unstartedNote(project: Project): string | null {
  const lines = linesOf(project.text('Procfile'))
  const started = startedLine(lines)
  const names = lines.filter(line => line !== started).map(([name]) => name)
  if (names.length === 0 || project.has('mote.toml')) return null
  return `Procfile: the build starts no ${names.join(', ')}. Declare [processes.<name>] and [release] in mote.toml; mote launch does it`
}

/** Returns `deploy.startCommand` of railpack.json. */
export const railpackStart = (project: Project): string | undefined =>
  stringOr(objectOr(project.json('railpack.json')['deploy'])['startCommand'])

/** Whether the project names its start command, so that the provider need not find one. */
export const namesStart = (project: Project) => project.has('Procfile') || railpackStart(project) !== undefined

/** Returns the plan with this start command, or the unchanged plan if `start` is not given. */
export function startedBy(plan: BuildPlan, start: string | undefined): BuildPlan {
  if (start === undefined) return plan
  const own = plan.node ? { node: { ...plan.node, script: null } } : {}
  return { ...plan, ...own, start, staticDir: null }
}
