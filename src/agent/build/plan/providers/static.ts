import { faultAt } from '../project.ts'
import type { Provider } from '../types.ts'

/** A site without a build: the directory `root` of a Staticfile, otherwise the top or `public`. */
export const staticSite: Provider = {
  name: 'static',
  detect: project => ['Staticfile', 'index.html', 'public/index.html'].some(project.has),
  plan: project => {
    const dir = /^root:\s*["']?([^"'\s]+)/m.exec(project.text('Staticfile'))?.[1]
    const staticDir = dir ?? (project.has('index.html') ? '.' : 'public')
    if (staticDir !== '.' && project.under(staticDir).length === 0)
      throw faultAt(
        { file: 'Staticfile', line: 1 },
        `There is no directory "${staticDir}". Set root to one that exists.`,
      )
    return { framework: null, tools: [], install: [], build: [], start: null, staticDir, port: null }
  },
}
