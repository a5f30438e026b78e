import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

export const gleam: Provider = {
  name: 'gleam',
  detect: project => project.has('gleam.toml'),
  plan: project => ({
    framework: null,
    tools: [versionOf(project, 'gleam'), versionOf(project, 'erlang')],
    install: [],
    build: ['gleam export erlang-shipment'],
    start: './build/erlang-shipment/entrypoint.sh run',
    staticDir: null,
    port: null,
  }),
}
