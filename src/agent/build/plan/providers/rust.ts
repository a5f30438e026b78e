import { faultAt, type Project } from '../project.ts'
import { tomlValue } from '../toml.ts'
import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

/** A Cargo package or workspace. Starts the binary that `default-run` names, otherwise the first one. */
export const rust: Provider = {
  name: 'rust',
  detect: project => project.has('Cargo.toml'),
  plan: project => {
    const member = memberWithBinary(project)
    const binary = binaryOf(project, member)
    const found = binariesOf(project, member)
    const binaries = found.includes(binary) ? found : [binary]
    const usesRocket = project.toml(at(member, 'Cargo.toml')).some(({ key }) => key === 'rocket')
    const select = member === '' ? '' : ` --package ${packageName(project, member)}`
    return {
      framework: usesRocket ? 'rocket' : null,
      tools: [versionOf(project, 'rust')],
      install: ['cargo fetch'],
      build: [
        `cargo build --release${select}`,
        'mkdir -p bin',
        ...binaries.map(name => `cp target/release/${name} bin/`),
      ],
      // Rocket reads address and port from its own variables, and listens on loopback by default.
      start: `${usesRocket ? 'ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=$PORT ' : ''}./bin/${binary}`,
      staticDir: null,
      port: null,
    }
  },
}

const at = (dir: string, name: string) => (dir === '' ? name : `${dir}/${name}`)
const packageName = (project: Project, dir: string) =>
  tomlValue(project.toml(at(dir, 'Cargo.toml')), 'package', 'name')?.value ?? dir

const hasBinary = (project: Project, dir: string) =>
  project.has(at(dir, 'src/main.rs')) ||
  project.under(at(dir, 'src/bin')).length > 0 ||
  project.toml(at(dir, 'Cargo.toml')).some(({ table }) => table === 'bin')

function memberWithBinary(project: Project): string {
  if (hasBinary(project, '')) return ''
  const member = project
    .find(/^.+\/Cargo\.toml$/)
    .map(path => path.slice(0, -'/Cargo.toml'.length))
    .find(dir => hasBinary(project, dir))
  if (member === undefined)
    throw faultAt({ file: 'Cargo.toml', line: 1 }, 'The package has no binary. Add src/main.rs or src/bin/<name>.rs.')
  return member
}

/** Returns the binaries that Cargo discovers by their paths. All of them are kept for other processes of the app. */
function binariesOf(project: Project, dir: string): string[] {
  const extra = project
    .under(at(dir, 'src/bin'))
    .map(path => path.slice(at(dir, 'src/bin/').length))
    .filter(path => /^[^/]+\.rs$|^[^/]+\/main\.rs$/.test(path))
    .map(path => path.replace(/\/.*|\.rs$/g, ''))
  const isOwn = project.has(at(dir, 'src/main.rs'))
  const isPlain = !project.toml(at(dir, 'Cargo.toml')).some(({ table }) => table === 'bin')
  return isPlain ? [...(isOwn ? [packageName(project, dir)] : []), ...extra] : []
}

function binaryOf(project: Project, dir: string): string {
  const lines = project.toml(at(dir, 'Cargo.toml'))
  const named = tomlValue(lines, 'package', 'default-run') ?? tomlValue(lines, 'bin', 'name')
  if (named) return named.value
  const extra = project.under(at(dir, 'src/bin'))[0]
  if (extra !== undefined && !project.has(at(dir, 'src/main.rs')))
    return extra.slice(at(dir, 'src/bin/').length).replace(/\/.*|\.rs$/g, '')
  return packageName(project, dir)
}
