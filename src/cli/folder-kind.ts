/** Detects the kind of project in a folder by the rules of builds, so that `mote launch` announces what is built. */
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { providers } from '../agent/build/plan/index.ts'
import { openProject } from '../agent/build/plan/project.ts'
import type { Provider, ProviderName } from '../agent/build/plan/types.ts'

/** Kind of project in a folder, as a build would detect it. */
export interface FolderKind {
  readonly what: string
  readonly port: number
}

/** For each kind of project: its name as part of a sentence, and the port on which such programs usually listen. */
const kinds = {
  dockerfile: { what: 'a Dockerfile', port: 8080 },
  php: { what: 'a PHP app', port: 8080 },
  go: { what: 'a Go program', port: 8080 },
  java: { what: 'a Java app', port: 8080 },
  rust: { what: 'a Rust program', port: 8080 },
  ruby: { what: 'a Ruby app', port: 3000 },
  elixir: { what: 'an Elixir app', port: 4000 },
  python: { what: 'a Python app', port: 8000 },
  deno: { what: 'a Deno app', port: 8000 },
  dotnet: { what: 'a .NET app', port: 8080 },
  node: { what: 'a Node app', port: 3000 },
  gleam: { what: 'a Gleam app', port: 8080 },
  cpp: { what: 'a C++ program', port: 8080 },
  static: { what: 'a static site', port: 8080 },
  shell: { what: 'a shell script', port: 8080 },
} as const satisfies Record<ProviderName, FolderKind>

/** The only file in a subdirectory that the detection of a project's kind considers. */
const nestedPage = 'public/index.html'

/**
 * Returns the kind of app in the folder; undefined if it cannot be detected, in which case a build would also fail to
 * detect it. EXPOSE in a Dockerfile overrides the usual port.
 */
export async function inspectFolder(dir: string): Promise<FolderKind | undefined> {
  const entries = await readdir(dir, { withFileTypes: true })
  const paths = entries.filter(entry => !entry.isDirectory()).map(({ name }) => name)
  if (existsSync(join(dir, nestedPage))) paths.push(nestedPage)
  const manifest = paths.includes('package.json') ? await readFile(join(dir, 'package.json'), 'utf8') : '{}'
  const project = openProject({ paths: new Set(paths), texts: new Map([['package.json', validOr(manifest)]]) })
  const provider = providers.find(one => one.detect(project))
  if (!provider) return undefined
  const { what, port } = kinds[provider.name]
  const file = paths.find(path => decides(provider, path))
  if (provider.name !== 'dockerfile') return { what: file === undefined ? what : `${what} (${file})`, port }
  const exposed = /^[ \t]*EXPOSE[ \t]+(\d{1,5})/im.exec(await readFile(join(dir, file ?? 'Dockerfile'), 'utf8'))?.[1]
  return { what, port: exposed === undefined ? port : Number(exposed) }
}

/** Returns whether a folder with only this file is accepted by the provider (the builder for one kind of project). */
const decides = ({ detect }: Provider, path: string) =>
  detect(openProject({ paths: new Set([path]), texts: new Map([[path, '{}']]) }))

/** Returns the package.json, or a valid placeholder if it is not JSON; the build reports that error with its line. */
function validOr(manifest: string): string {
  try {
    JSON.parse(manifest)
    return manifest
  } catch {
    return '{"scripts":{"start":"?"}}'
  }
}
