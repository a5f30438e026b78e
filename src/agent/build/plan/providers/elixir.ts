import { faultAt, type Project } from '../project.ts'
import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

/** Whether mix.exs lists dependencies such as `{:name, "~> 1.0"}`. */
const hasDependencies = (project: Project) =>
  project.has('mix.lock') &&
  project
    .text('mix.exs')
    .split('\n')
    .some(line => /^\s*\{:\w+,\s*(?:"|\w+:)/.test(line))

/** An Elixir project with a mix.exs, started as a release. */
export const elixir: Provider = {
  name: 'elixir',
  detect: project => project.has('mix.exs'),
  plan: project => {
    const text = project.text('mix.exs')
    const app = /app:\s*:(\w+)/.exec(text)?.[1]
    if (app === undefined) throw faultAt({ file: 'mix.exs', line: 1 }, 'The project has no name. Add app: :name.')
    const hasTask = (name: string) => text.includes(`"${name}"`)
    return {
      framework: /\{:phoenix,/.test(text) ? 'phoenix' : null,
      debian: { build: ['elixir', 'erlang-dev', 'erlang-nox'], run: [] },
      tools: [versionOf(project, 'elixir'), versionOf(project, 'erlang')],
      // Without dependencies, the build does not need Hex.
      install: hasDependencies(project)
        ? [
            'mix local.hex --force',
            'mix local.rebar --force',
            'mix deps.get --only prod',
            'mix deps.compile',
            ...(hasTask('assets.setup') ? ['mix assets.setup'] : []),
          ]
        : [],
      build: ['mix compile', ...(hasTask('assets.deploy') ? ['mix assets.deploy'] : []), 'mix release'],
      start: `_build/prod/rel/${app}/bin/${app} start`,
      staticDir: null,
      port: null,
    }
  },
}
