import { railpackStart } from '../start.ts'
import type { Provider } from '../types.ts'

/** Shells that a `#!` line may select. The image has no other interpreters. */
const shells = ['bash', 'sh', 'dash', 'zsh']

/** Runs `start.sh` with the shell that its `#!` line names, or the start command of railpack.json. */
export const shell: Provider = {
  name: 'shell',
  detect: project => project.has('start.sh') || railpackStart(project) !== undefined,
  plan: project => {
    const named = /^#!\s*\S*\/(?:env\s+)?(\w+)/.exec(project.text('start.sh'))?.[1] ?? 'sh'
    const program = shells.includes(named) && named !== 'dash' ? named : 'sh'
    return {
      framework: null,
      debian: { build: [], run: program === 'zsh' ? ['zsh'] : [] },
      tools: [],
      install: [],
      build: project.has('start.sh') ? ['chmod +x start.sh'] : [],
      start: `${program} start.sh`,
      staticDir: null,
      port: null,
    }
  },
}
