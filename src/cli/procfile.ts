/** Converts the processes of a Procfile (https://devcenter.heroku.com/articles/procfile) to keys of mote.toml. */
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { AppFile } from '../appfile/schema.ts'

const mostBytes = 64 * 1024
const mostWorkers = 9

/** The lines of a Procfile except `web`, which builds read from the Procfile themselves. */
export interface Procfile {
  readonly release: AppFile['release']
  /** Command of each worker, by the worker's name. */
  readonly workers: Readonly<Record<string, { readonly command: string[] }>>
}

/**
 * Reads the folder's Procfile.
 * @returns undefined if there is none, or if it has only the line `web`
 * @throws Error if mote.toml cannot express the Procfile
 */
export async function procfileIn(dir: string): Promise<Procfile | undefined> {
  await using file = await open(join(dir, 'Procfile')).catch(() => undefined)
  if (!file) return undefined
  const { buffer, bytesRead } = await file.read(Buffer.alloc(mostBytes), 0, mostBytes, 0)
  const { web, release, ...others } = linesOf(buffer.toString('utf8', 0, bytesRead))
  const workers = Object.entries(others).map(([name, line]) => [workerName(name), shell(line)] as const)
  // A build starts a Procfile's only process as `web`, whatever its name is.
  if (web === undefined && workers.length === 1) workers.pop()
  if (release === undefined && workers.length === 0) return undefined
  if (workers.length > mostWorkers) throw new Error(`The Procfile exceeds the limit of ${mostWorkers} workers.`)
  if (new Set(workers.map(([name]) => name)).size < workers.length)
    throw new Error('Two names in the Procfile differ only in characters that names of workers cannot have.')
  return {
    release: release === undefined ? undefined : shell(release),
    workers: Object.fromEntries(workers),
  }
}

export function procfileText({ release, workers }: Procfile): string {
  const names = [...(release ? ['the release command'] : []), ...Object.keys(workers).map(name => `the worker ${name}`)]
  return `From its Procfile: ${names.join(', ')}.`
}

const linesOf = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text.split('\n').flatMap(line => {
      const [, name, command] = /^([A-Za-z0-9_-]{1,63}):\s*(\S.{0,4000})$/.exec(line.trimEnd()) ?? []
      return name === undefined || command === undefined ? [] : [[name, command.trim()]]
    }),
  )

/** The lines of a Procfile are shell commands, so run them with a shell. */
const shell = (line: string) => ({ command: ['/bin/sh', '-c', line] })

function workerName(name: string): string {
  const label = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[-0-9]+|(?<!-)-+$/g, '')
  return label.slice(0, 20).replace(/(?<!-)-+$/, '') || 'worker'
}
