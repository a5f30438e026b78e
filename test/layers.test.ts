import { readFileSync, globSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, it } from 'vitest'

/**
 * The layers of the source tree: for each top-level folder ("room"), the other top-level folders that it may import.
 * There is no other documentation of this.
 */
const rooms = {
  lib: [],
  contract: ['lib'],
  appfile: ['lib'],
  compose: ['lib', 'appfile'],
  db: ['lib'],
  engine: ['lib', 'db'],
  bus: ['lib'],
  client: ['lib'],
  agent: ['lib', 'contract', 'bus'],
  gateway: ['lib', 'contract', 'bus'],
  control: ['lib', 'appfile', 'contract', 'bus', 'db', 'engine'],
  programs: ['lib', 'contract', 'bus', 'db', 'engine', 'control', 'agent', 'gateway'],
  stack: ['lib', 'appfile', 'compose', 'client'],
  cli: ['lib', 'appfile', 'compose', 'stack', 'client', 'programs', 'control', 'agent', 'db', 'bus', 'engine'],
} as const satisfies Record<string, readonly string[]>

type Room = keyof typeof rooms

interface Import {
  readonly from: string
  readonly to: string
}

const roomOf = (file: string) => file.split('/')[1] as Room
const featureOf = (file: string) => file.split('/')[2] ?? ''
const sources = globSync('src/**/*.ts').filter(file => !file.endsWith('.test.ts'))

function importsOf(file: string): Import[] {
  const found = readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)
  return [...found].map(match => ({ from: file, to: normalize(join(dirname(file), match[1]!)) }))
}
const imports = sources.flatMap(importsOf)
const show = ({ from, to }: Import) => `${from} -> ${to}`

/** Returns `src/<folder>/<subfolder>` of a file, or `src/<folder>` if it is directly in the top-level folder. */
const folderOf = (file: string) => dirname(file).split('/').slice(0, 3).join('/')

/**
 * Returns the subfolders of a top-level folder that are part of an import cycle between its subfolders. Files directly
 * in the top-level folder are ignored, because they connect the subfolders.
 */
function foldersInCycles(room: Room): string[] {
  const next = new Map<string, Set<string>>()
  for (const { from, to } of imports) {
    const [here, there] = [folderOf(from), folderOf(to)]
    if (here === there || ![here, there].every(folder => folder.startsWith(`src/${room}/`))) continue
    next.set(here, (next.get(here) ?? new Set()).add(there))
  }
  const reaches = (from: string, seen = new Set<string>()): Set<string> => {
    for (const to of next.get(from) ?? [])
      if (!seen.has(to)) {
        seen.add(to)
        reaches(to, seen)
      }
    return seen
  }
  return [...next.keys()].filter(folder => reaches(folder).has(folder))
}

/** Parts of `control` that are not features: all features may import them, and they may import all features. */
const shared = ['base', 'http', 'scheduler', 'app.ts', 'main.ts', 'operations.ts']

describe('the layers of the source tree', () => {
  it('the test finds imports', () => expect(imports.length).toBeGreaterThan(500))

  it('every top-level folder is in the table', () => {
    expect([...new Set(sources.map(roomOf))].filter(room => !(room in rooms))).toEqual([])
  })

  it('a top-level folder imports only what the table allows', () => {
    const bad = imports.filter(({ from, to }) => {
      const [here, there] = [roomOf(from), roomOf(to)]
      const allowed: readonly string[] = rooms[here]
      return to.startsWith('src/') && here !== there && !allowed.includes(there)
    })
    expect(bad.map(show)).toEqual([])
  })

  it('a feature of the control plane imports a sibling only through its index.ts, or the declarations in its schema.ts', () => {
    const bad = imports.filter(({ from, to }) => {
      if (!from.startsWith('src/control/') || !to.startsWith('src/control/')) return false
      const [here, there] = [featureOf(from), featureOf(to)]
      if (here === there || shared.includes(there) || shared.includes(here)) return false
      return !to.endsWith('/index.ts') && !to.endsWith('/schema.ts')
    })
    expect(bad.map(show)).toEqual([])
  })

  it.each(Object.keys(rooms) as Room[])('no import cycle connects subfolders of %s', room => {
    const cyclic = new Set(foldersInCycles(room))
    const bad = imports.filter(({ from, to }) => cyclic.has(folderOf(from)) && cyclic.has(folderOf(to)))
    expect(bad.filter(({ from, to }) => folderOf(from) !== folderOf(to)).map(show)).toEqual([])
  })

  it('only the programs, the CLI and modules that start child processes read environment variables', () => {
    /** Modules that pass parts of the environment to a child process or search the PATH, but read no settings. */
    const starters = ['src/lib/child-env.ts', 'src/db/embedded/server.ts']
    const code = (file: string) => readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
    const readers = sources.filter(
      file => /process\.env/.test(code(file)) && !['programs', 'cli'].includes(roomOf(file)),
    )
    expect(readers.sort()).toEqual(starters.sort())
  })

  it('only listed server files start programs, each with an explicit environment', () => {
    /**
     * Files that start child processes themselves and so must set `env`. The CLI is exempt: its child processes belong
     * to the same user.
     */
    const own = [
      'src/agent/hypervisor/gvisor/start.ts',
      'src/agent/hypervisor/process.ts',
      'src/agent/launcher/launcher.ts',
      'src/lib/exec.ts',
      'src/programs/registry.ts',
    ]
    const starters = [
      ...own,
      'src/agent/guest/own-kernel.ts',
      'src/agent/guest/vmlinux.ts',
      ...['account', 'owner', 'reachable', 'server'].map(name => `src/db/embedded/${name}.ts`),
    ]
    const found = sources.filter(
      file => roomOf(file) !== 'cli' && readFileSync(file, 'utf8').includes("from 'node:child_process'"),
    )
    expect(found.sort()).toEqual(starters.sort())
    for (const file of own) expect(readFileSync(file, 'utf8'), file).toMatch(/\benv\b/)
  })

  it('the build makes a separate file of every worker thread', () => {
    const isThread = (file: string) =>
      /\bworkerData\b|\banswerJob[<(]|\bparentPort\?\.on/.test(readFileSync(file, 'utf8'))
    const built = /const threads = \[([^\]]*)\]/.exec(readFileSync('scripts/build.mjs', 'utf8'))?.[1] ?? ''
    const listed = [...built.matchAll(/'([^']+)'/g)].map(match => match[1])
    const threads = sources.filter(file => isThread(file) && file !== 'src/lib/archive/thread.ts')
    expect(threads.length).toBeGreaterThan(3)
    expect(listed.toSorted()).toEqual(threads.toSorted())
    const names = listed.map(file => file?.split('/').at(-1))
    expect(new Set(names).size, 'file names are unique, because they share a folder').toBe(names.length)
  })
})
