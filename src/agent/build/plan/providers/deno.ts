import { faultAt, objectOr, stringOr } from '../project.ts'
import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

const files = ['main.ts', 'main.js', 'server.ts', 'index.ts', 'mod.ts']

export const deno: Provider = {
  name: 'deno',
  detect: project => project.has('deno.json') || project.has('deno.jsonc'),
  plan: project => {
    const config = project.has('deno.json') ? 'deno.json' : 'deno.jsonc'
    const task = stringOr(objectOr(project.json(config)['tasks'])['start'])
    const main = files.find(project.has)
    if (main === undefined && task === undefined)
      throw faultAt({ file: config, line: 1 }, 'There is no start command. Add a task "start", or a file main.ts.')
    return {
      framework: null,
      tools: [versionOf(project, 'deno')],
      install: [],
      build: main === undefined ? [] : [`deno cache ${main}`],
      start: task === undefined ? `deno run --allow-all ${main}` : 'deno task start',
      staticDir: null,
      port: null,
    }
  },
}
