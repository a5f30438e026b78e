/** Describes a build plan for the build log. */
import type { BuildPlan, ProviderName, ToolVersion } from './types.ts'

const nouns = {
  dockerfile: 'a Dockerfile',
  php: 'a PHP project',
  go: 'a Go project',
  java: 'a Java project',
  rust: 'a Rust project',
  ruby: 'a Ruby project',
  elixir: 'an Elixir project',
  python: 'a Python project',
  deno: 'a Deno project',
  dotnet: 'a .NET project',
  node: 'a Node project',
  gleam: 'a Gleam project',
  cpp: 'a C++ project',
  static: 'a static site',
  shell: 'a shell script',
} as const satisfies Record<ProviderName, string>

export const nounOf = (provider: ProviderName) => nouns[provider]

export function describePlan({ provider, framework, staticDir, tools, beside = [], note }: BuildPlan): string[] {
  const noun = provider === 'node' && staticDir !== null ? 'a site that Node builds' : nouns[provider]
  const found = `found ${noun}${framework === null ? '' : ` (${framework})`}`
  return [found, ...[...tools, ...beside].flatMap(named), ...(note ? note.split('\n') : [])]
}

const named = ({ tool, version, from }: ToolVersion): string[] =>
  from === null ? [] : [`${from.file}, line ${from.line}, asks for ${tool} ${version}`]
