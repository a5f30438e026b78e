/** Finds the version of a tool that a project names. The first file that names one wins. */
import { faultAt, lineAt, objectOr, type Project, stringOr } from './project.ts'
import { tomlValue } from './toml.ts'
import type { Place, ToolName, ToolVersion } from './types.ts'

interface Found {
  readonly version: string
  readonly line: number
}
type Source = readonly [file: string, read: (project: Project, file: string) => Found | undefined]

/** Reads the version from the first line of a file that is not a comment. */
const plainFile = (file: string, pattern = /^(?:v|python-|ruby-|go)?(\S+)$/): Source => [
  file,
  project => {
    for (const [index, raw] of project.text(file).split('\n').entries()) {
      const version = pattern.exec(raw.replace(/#.*/, '').trim())?.[1]
      if (version !== undefined) return { version, line: index + 1 }
    }
    return undefined
  },
]

const matching = (file: string, pattern: RegExp): Source => [
  file,
  project => {
    const text = project.text(file)
    const match = pattern.exec(text)
    const version = match?.slice(1).find(group => group !== undefined)
    return match && version !== undefined
      ? { version, line: lineAt(text, match.index + match[0].lastIndexOf(version)) }
      : undefined
  },
]

const jsonField = (file: string, outer: string, key: string): Source => [
  file,
  project => {
    const version = stringOr(objectOr(project.json(file)[outer])[key])
    if (version === undefined) return undefined
    const text = project.text(file)
    return { version, line: lineAt(text, text.indexOf(`"${key}"`, text.indexOf(`"${outer}"`))) }
  },
]

/** Reads `packageManager` of package.json, such as `"pnpm@9.1.0+sha512..."`. */
const packageManagerField = (tool: string): Source =>
  matching('package.json', new RegExp(`"packageManager"\\s*:\\s*"${tool}@([^"+]+)`))

const tomlField = (file: string, table: string, key: string): Source => [
  file,
  project => {
    const found = tomlValue(project.toml(file), table, key)
    return found && { version: found.value, line: found.line }
  },
]

/** Reads mise.toml: `node = "22"`, `node = ["22", "20"]`, `node = { version = "22" }` or a table `[tools.node]`. */
const mise = (...names: readonly string[]): Source => [
  'mise.toml',
  project => {
    const lines = project.toml('mise.toml')
    for (const name of names) {
      const found = tomlValue(lines, 'tools', name) ?? tomlValue(lines, `tools.${name}`, 'version')
      if (!found) continue
      const version = /version\s*=\s*"([^"]+)"/.exec(found.value)?.[1] ?? /^\[\s*"([^"]+)"/.exec(found.value)?.[1]
      return { version: version ?? found.value, line: found.line }
    }
    return undefined
  },
]

const toolVersions = (...names: readonly string[]): Source =>
  matching('.tool-versions', new RegExp(`^(?:${names.join('|')})[ \\t]+(\\S+)`, 'm'))

/**
 * Where a project may name the version of each tool. Files that name one version come before files with a range of
 * supported versions.
 */
export const versionSources = {
  node: [
    plainFile('.nvmrc'),
    plainFile('.node-version'),
    mise('node', 'nodejs'),
    toolVersions('nodejs', 'node'),
    jsonField('package.json', 'volta', 'node'),
    jsonField('package.json', 'engines', 'node'),
  ],
  npm: [packageManagerField('npm'), mise('npm'), jsonField('package.json', 'engines', 'npm')],
  pnpm: [packageManagerField('pnpm'), mise('pnpm'), toolVersions('pnpm'), jsonField('package.json', 'engines', 'pnpm')],
  yarn: [
    packageManagerField('yarn'),
    mise('yarn'),
    toolVersions('yarn'),
    matching('.yarnrc.yml', /^yarnPath:.{0,200}\byarn-(\d[\w.-]{0,40})\.c?js/m),
    jsonField('package.json', 'engines', 'yarn'),
  ],
  bun: [
    packageManagerField('bun'),
    plainFile('.bun-version'),
    mise('bun'),
    toolVersions('bun'),
    jsonField('package.json', 'engines', 'bun'),
  ],
  python: [
    plainFile('.python-version'),
    plainFile('runtime.txt'),
    mise('python'),
    toolVersions('python'),
    // `python_full_version` comes first, because Pipenv rejects any other patch version.
    matching('Pipfile', /^python_full_version\s*=\s*"([^"]+)"/m),
    matching('Pipfile', /^python_version\s*=\s*"([^"]+)"/m),
    tomlField('pyproject.toml', 'project', 'requires-python'),
    tomlField('pyproject.toml', 'tool.poetry.dependencies', 'python'),
  ],
  uv: [mise('uv'), toolVersions('uv'), tomlField('pyproject.toml', 'tool.uv', 'required-version')],
  poetry: [mise('poetry'), toolVersions('poetry')],
  pdm: [mise('pdm'), toolVersions('pdm')],
  pipenv: [mise('pipenv'), toolVersions('pipenv')],
  go: [
    mise('go', 'golang'),
    toolVersions('golang', 'go'),
    plainFile('.go-version'),
    matching('go.mod', /^toolchain\s+go(\S+)/m),
    matching('go.work', /^toolchain\s+go(\S+)/m),
    matching('go.mod', /^go\s+(\S+)/m),
    matching('go.work', /^go\s+(\S+)/m),
  ],
  rust: [
    tomlField('rust-toolchain.toml', 'toolchain', 'channel'),
    tomlField('rust-toolchain', 'toolchain', 'channel'),
    plainFile('rust-toolchain', /^([\w.-]+)$/),
    mise('rust'),
    toolVersions('rust'),
    tomlField('Cargo.toml', 'package', 'rust-version'),
  ],
  ruby: [
    plainFile('.ruby-version'),
    mise('ruby'),
    toolVersions('ruby'),
    matching('Gemfile', /^ruby[ \t]+["'](?:~>[ \t]*)?([^\s"'][^"'\n]{0,40})["']/m),
    matching('Gemfile.lock', /^RUBY VERSION\s+ruby (\d+\.\d+\.\d+)/m),
  ],
  java: [
    plainFile('.java-version'),
    mise('java'),
    toolVersions('java'),
    matching('pom.xml', /<(?:java\.version|maven\.compiler\.release|maven\.compiler\.target)>\s*([\d.]+)\s*</),
    matching('build.gradle', /(?:JavaLanguageVersion\.of\((\d+)\)|sourceCompatibility\s*=\s*['"]?(\d[\d.]*))/),
    matching('build.gradle.kts', /(?:JavaLanguageVersion\.of\((\d+)\)|jvmToolchain\((\d+)\))/),
  ],
  php: [mise('php'), toolVersions('php'), jsonField('composer.json', 'require', 'php')],
  dotnet: [jsonField('global.json', 'sdk', 'version'), mise('dotnet'), toolVersions('dotnet', 'dotnet-core')],
  deno: [plainFile('.deno-version'), mise('deno'), toolVersions('deno')],
  elixir: [
    plainFile('.elixir-version'),
    mise('elixir'),
    toolVersions('elixir'),
    matching('mix.exs', /elixir:\s*"([^"]+)"/),
  ],
  erlang: [mise('erlang'), toolVersions('erlang')],
  gleam: [mise('gleam'), toolVersions('gleam'), tomlField('gleam.toml', '', 'gleam')],
} as const satisfies Record<ToolName, readonly Source[]>

/**
 * Versions for projects that name none: the current stable one, or `latest` for tools whose new versions keep old
 * projects working.
 */
export const defaultVersions = {
  node: '24',
  npm: 'bundled',
  pnpm: '10',
  yarn: '1',
  bun: 'latest',
  python: '3.13',
  uv: 'latest',
  poetry: 'latest',
  pdm: 'latest',
  pipenv: 'latest',
  go: '1.26',
  rust: 'stable',
  ruby: '3.4',
  java: '21',
  php: '8.4',
  dotnet: '9.0',
  deno: '2',
  elixir: '1.18',
  erlang: '27',
  gleam: 'latest',
} as const satisfies Record<ToolName, string>

/**
 * What `latest` means for languages whose default is older, because many packages do not support the newest version
 * yet.
 */
const newestVersions: Readonly<Partial<Record<ToolName, string>>> = { python: '>=3.13', ruby: '>=3.4' }

/** Names for the newest version: nvm's aliases and those of other tools. */
const newest = /^(?:lts(?:\/.*)?|latest|current|system|\*|stable|node)$/i
/** Matches a version or a range of versions. */
const wellFormed = /^[\w.*^~<>=!| ,+\-@/]+$/

/**
 * Returns the version that the project names, otherwise the default. @throws BuildFault if the named version is invalid
 */
export const versionOf = (project: Project, tool: ToolName): ToolVersion =>
  namedIn(project, tool, [jsonField('railpack.json', 'packages', tool), ...versionSources[tool]]) ?? {
    tool,
    version: defaultVersions[tool],
    from: null,
  }

/** Files that name the versions of tools of any language. */
export const toolFiles = ['mise.toml', '.tool-versions'] as const

/** Returns the version in one of `toolFiles`. @throws BuildFault if it is invalid */
export const versionInToolFile = (project: Project, tool: ToolName): ToolVersion | undefined =>
  namedIn(
    project,
    tool,
    [...versionSources[tool]].filter(([file]) => toolFiles.some(one => one === file)),
  )

function namedIn(project: Project, tool: ToolName, sources: readonly Source[]): ToolVersion | undefined {
  for (const [file, read] of sources) {
    const found = project.has(file) ? read(project, file) : undefined
    if (!found) continue
    const from: Place = { file, line: found.line }
    const version = found.version.trim().replace(/^v(?=\d)/, '')
    if (!wellFormed.test(version) || (!/\d/.test(version) && !newest.test(version) && tool !== 'rust'))
      throw faultAt(
        from,
        `"${version.slice(0, 60)}" is no version of ${tool}. Write a version such as ${exampleOf(tool)}.`,
      )
    const isNewest = newest.test(version) && tool !== 'rust'
    return { tool, version: isNewest ? (newestVersions[tool] ?? defaultVersions[tool]) : version, from }
  }
  return undefined
}

const exampleOf = (tool: ToolName) => (/\d/.test(defaultVersions[tool]) ? defaultVersions[tool] : '1.2.3')
