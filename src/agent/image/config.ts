import { constants } from 'node:os'
import { realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { Type, type Static } from 'typebox'
import { readRegular } from '../../lib/files.ts'
import type { ImageConfig } from './layout.ts'
import { ImageError } from '../base/image-error.ts'

/** The image's run configuration, with user and groups resolved in the image's own files. Stored next to the base. */
export const RunConfig = Type.Object({
  digest: Type.String(),
  baseType: Type.Union([Type.Literal('erofs'), Type.Literal('ext4')]),
  argv: Type.Object({ entrypoint: Type.Array(Type.String()), cmd: Type.Array(Type.String()) }),
  env: Type.Record(Type.String(), Type.String()),
  cwd: Type.String(),
  uid: Type.Integer(),
  gid: Type.Integer(),
  groups: Type.Array(Type.Integer()),
  stopSignal: Type.Integer(),
})
export type RunConfig = Static<typeof RunConfig>

const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Reads a file of an image. Returns an empty text if the file does not exist, or if a link leads out of the image. */
export type ReadFile = (file: string) => Promise<string>

/**
 * Returns the image's run configuration. @throws ImageError `image_unusable` if its user does not exist in the image
 */
export async function runConfigOf(
  read: ReadFile,
  { config }: ImageConfig,
): Promise<Omit<RunConfig, 'digest' | 'baseType'>> {
  const user = await resolveUser(read, config?.User ?? '')
  return {
    argv: { entrypoint: config?.Entrypoint ?? [], cmd: config?.Cmd ?? [] },
    env: { PATH: defaultPath, HOME: user.home, ...parseEnv(config?.Env ?? []) },
    cwd: config?.WorkingDir || '/',
    uid: user.uid,
    gid: user.gid,
    groups: user.groups,
    stopSignal: signalNumber(config?.StopSignal ?? 'SIGTERM'),
  }
}

/** The first second of the year 2100. Later times are considered invalid. */
const latest = 4_102_444_800

/**
 * Returns the modification time for all files of the base, in seconds: the image's creation time. With this time, every
 * host creates the same base, and the ETag and Last-Modified headers that web servers derive from it change with every
 * version.
 */
export function fileSeconds({ created }: Pick<ImageConfig, 'created'>): number {
  const seconds = typeof created === 'string' ? Math.floor(Date.parse(created) / 1000) : 0
  return seconds > 0 && seconds < latest ? seconds : 0
}

function parseEnv(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    lines.map(line => {
      const at = line.indexOf('=')
      return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1)]
    }),
  )
}

function signalNumber(text: string): number {
  if (/^\d+$/.test(text)) return Number(text)
  const name = text.startsWith('SIG') ? text : `SIG${text}`
  return Object.entries(constants.signals).find(([signal]) => signal === name)?.[1] ?? constants.signals.SIGTERM
}

interface User {
  readonly uid: number
  readonly gid: number
  readonly groups: number[]
  readonly home: string
}

/** Resolves the image's `User`: `name|uid[:group|gid]` (image-spec config.md). */
async function resolveUser(read: ReadFile, text: string): Promise<User> {
  const [name = '', groupName] = text.split(':')
  const passwd = tableOf(await read('etc/passwd'))
  const group = tableOf(await read('etc/group'))
  const entry = passwd.find(fields => fields[0] === (name || 'root') || (name !== '' && fields[2] === name))
  if (entry === undefined && name !== '' && !/^\d+$/.test(name)) {
    throw new ImageError('image_unusable', `the image runs as user "${name}", which is not in its /etc/passwd`)
  }
  const uid = Number(entry?.[2] ?? (name || 0))
  const gid = groupName ? groupId(group, groupName) : Number(entry?.[3] ?? 0)
  const member = (fields: readonly string[]) => fields[3]?.split(',').includes(entry?.[0] ?? '') === true
  const groups = groupName || !entry ? [] : group.filter(member).map(fields => Number(fields[2]))
  return { uid, gid, groups, home: entry?.[5] || '/' }
}

function groupId(group: readonly string[][], name: string): number {
  if (/^\d+$/.test(name)) return Number(name)
  const id = group.find(fields => fields[0] === name)?.[2]
  if (id === undefined) {
    throw new ImageError('image_unusable', `the image runs as group "${name}", which is not in its /etc/group`)
  }
  return Number(id)
}

/**
 * Limit on the size of an image's passwd and group files. An image may contain gigabytes, or a device, under these
 * names.
 */
export const maxTableBytes = 1 << 20
const maxUsers = 10_000
const fieldsOfUser = 7

/** Parses a file with colon-separated fields, such as passwd. */
const tableOf = (text: string): string[][] => text.split('\n', maxUsers).map(line => line.split(':', fieldsOfUser))

/**
 * Returns a function that reads files of an image unpacked at `rootfs`, for images that this process can access
 * directly.
 */
export function filesBelow(rootfs: string): ReadFile {
  return async file => {
    try {
      const root = await realpath(rootfs)
      const path = await realpath(join(root, file))
      return path.startsWith(root + sep) ? ((await readRegular(path, maxTableBytes)) ?? '') : ''
    } catch {
      return ''
    }
  }
}
