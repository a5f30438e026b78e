import type { Project } from '../project.ts'
import type { BuildPlan, Provider } from '../types.ts'

export const dockerfileNames = ['Dockerfile', 'Containerfile'] as const
export const dockerfileOf = (project: Project) => dockerfileNames.find(name => project.has(name))

export const dockerfile: Provider = {
  name: 'dockerfile',
  detect: project => dockerfileOf(project) !== undefined,
  plan: project => dockerfilePlan(project, dockerfileOf(project) ?? 'Dockerfile'),
}

export function dockerfilePlan(project: Project, path: string): Omit<BuildPlan, 'provider'> {
  const port = /^EXPOSE\s+(\d+)/im.exec(project.text(path))?.[1]
  return {
    dockerfile: path,
    framework: null,
    tools: [],
    install: [],
    build: [],
    start: null,
    staticDir: null,
    port: port === undefined ? null : Number(port),
  }
}
