/** The smallest project for which each build plan provider (language) makes a plan. */
import type { ProviderName } from '../../../src/agent/build/plan/types.ts'

type Files = Readonly<Record<string, string>>

const startPackage = JSON.stringify({ scripts: { start: 'node index.js' }, dependencies: { a: '1' } }, null, 2)

export const smallestProjects = {
  dockerfile: { Dockerfile: 'FROM scratch\nEXPOSE 9000\n' },
  php: { 'index.php': '' },
  go: { 'go.mod': 'module a\n', 'main.go': '' },
  java: { 'pom.xml': '<project/>' },
  rust: { 'Cargo.toml': '[package]\nname = "a"\n', 'src/main.rs': '' },
  ruby: { Gemfile: '', 'app.rb': '' },
  elixir: { 'mix.exs': 'app: :shop' },
  python: { 'main.py': '' },
  deno: { 'deno.json': '{}', 'main.ts': '' },
  dotnet: { 'shop.csproj': '<Project/>' },
  node: { 'package.json': startPackage, 'index.js': '' },
  gleam: { 'gleam.toml': 'name = "a"\n' },
  cpp: { 'CMakeLists.txt': 'project(a)\nadd_executable(shop main.cc)\n' },
  static: { 'index.html': '' },
  shell: { 'start.sh': '#!/usr/bin/env bash\n' },
} as const satisfies Record<ProviderName, Files>
