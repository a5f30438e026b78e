/** Start commands that a project names beside its provider. */
import { objectOr, type Project, stringOr } from './project.ts'
import type { BuildPlan } from './types.ts'

/** `web: command` of Heroku's Procfile, else its only process. */
export function webProcess(text: string): string | undefined {
  const lines = [...text.matchAll(/^([\w-]+):\s*(\S.*)$/gm)]
  const line = lines.find(([, name]) => name === 'web') ?? (lines.length === 1 ? lines[0] : undefined)
  return line?.[2]?.trim()
}

/** `deploy.startCommand` of railpack.json. */
export const railpackStart = (project: Project): string | undefined =>
  stringOr(objectOr(project.json('railpack.json')['deploy'])['startCommand'])

/** Whether the provider needs to find no start command. */
export const namesStart = (project: Project) => project.has('Procfile') || railpackStart(project) !== undefined

/** The plan with another start command, if there is one. */
export function startedBy(plan: BuildPlan, start: string | undefined): BuildPlan {
  if (start === undefined) return plan
  const own = plan.node ? { node: { ...plan.node, script: null } } : {}
  return { ...plan, ...own, start, staticDir: null }
}
