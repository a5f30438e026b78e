import { faultAt, type Project } from '../project.ts'
import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

/**
 * A Go module or workspace. Builds one program: the top-level package, one in `cmd`, or a directory with a `main.go`.
 */
export const go: Provider = {
  name: 'go',
  detect: project => ['go.mod', 'go.work', 'main.go'].some(project.has),
  plan: project => {
    const isModule = project.has('go.mod') || project.has('go.work')
    const dir = mainPackage(project)
    return {
      framework: null,
      tools: [versionOf(project, 'go')],
      install: isModule ? ['go mod download'] : [],
      build: [['go build -trimpath -ldflags="-w -s" -o out', ...(dir === undefined ? [] : [dir])].join(' ')],
      start: './out',
      staticDir: null,
      port: null,
    }
  },
}

function mainPackage(project: Project): string | undefined {
  if (!project.has('go.mod') && !project.has('go.work')) return 'main.go'
  if (project.has('go.mod') && project.find(/^[^/]+\.go$/).length > 0) return undefined
  const command = project.find(/^cmd\/[^/]+\/.+\.go$/)[0]?.split('/')[1]
  if (command !== undefined) return `./cmd/${command}`
  const member = project.find(/^[^/]+\/main\.go$/)[0]?.split('/')[0]
  if (member !== undefined) return `./${member}`
  const file = project.has('go.mod') ? 'go.mod' : 'go.work'
  throw faultAt({ file, line: 1 }, 'No main package was found. Put it at the top of the module, or in cmd/<name>.')
}
