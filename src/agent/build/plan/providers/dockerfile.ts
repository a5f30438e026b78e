import type { Project } from '../project.ts'
import type { Provider } from '../types.ts'

export const dockerfileNames = ['Dockerfile', 'Containerfile'] as const
export const dockerfileOf = (project: Project) => dockerfileNames.find(name => project.has(name))

export const dockerfile: Provider = {
  name: 'dockerfile',
  detect: project => dockerfileOf(project) !== undefined,
  plan: project => {
    const port = /^EXPOSE\s+(\d+)/im.exec(project.text(dockerfileOf(project) ?? ''))?.[1]
    return {
      framework: null,
      tools: [],
      install: [],
      build: [],
      start: null,
      staticDir: null,
      port: port === undefined ? null : Number(port),
    }
  },
}
