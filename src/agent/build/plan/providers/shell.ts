import type { Provider } from '../types.ts'

/** Shells that a `#!` line may choose; other interpreters are not in the image. */
const shells = ['bash', 'sh', 'dash', 'zsh']

/** Runs `start.sh` with the shell of its first line. */
export const shell: Provider = {
  name: 'shell',
  detect: project => project.has('start.sh'),
  plan: project => {
    const named = /^#!\s*\S*\/(?:env\s+)?(\w+)/.exec(project.text('start.sh'))?.[1] ?? 'sh'
    const program = shells.includes(named) && named !== 'dash' ? named : 'sh'
    return {
      framework: null,
      tools: [],
      install: [],
      build: ['chmod +x start.sh'],
      start: `${program} start.sh`,
      staticDir: null,
      port: null,
    }
  },
}
