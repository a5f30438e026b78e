/**
 * Decides which tenant may use which image. Credentials of the operator's registries are used for the projects that the
 * operator named and for images built by the platform. A cached base is used only by tenants who could have pulled it
 * themselves.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ImageReference } from './reference.ts'
import type { RegistryConfig } from '../base/registry-config.ts'

/** The tenant that an image is fetched for. */
export interface ImageUser {
  readonly projectId: string
  /** Built by the platform for an app of this project, as checked by the control plane. */
  readonly builtImage?: boolean | undefined
}

export const everyProject = '*'

/** Returns the registries as this user may use them: without credentials that are reserved for others. */
export function registriesFor(registries: readonly RegistryConfig[], user: ImageUser): readonly RegistryConfig[] {
  return registries.map(one => {
    const isOpen = one.projects?.some(project => project === everyProject || project === user.projectId) ?? false
    if (isOpen || user.builtImage || one.username === undefined) return one
    const { username: _, password: __, ...anonymous } = one
    return anonymous
  })
}

/** Names how a user gains access to an image. Users with the same access share the fetched image. */
export function wayOf(
  reference: Pick<Extract<ImageReference, { kind: 'registry' }>, 'registry' | 'repository'>,
  registries: readonly RegistryConfig[],
): string {
  const isSignedIn = registries.some(({ host, username }) => host === reference.registry && username !== undefined)
  return `${isSignedIn ? 'signed in' : 'anonymous'} ${reference.repository}`
}

const markOf = (base: string, way: string) => join(base, 'ways', createHash('sha256').update(way).digest('hex'))

export const isKnownWay = (base: string, way: string) => existsSync(markOf(base, way))

export async function rememberWay(base: string, way: string): Promise<void> {
  if (isKnownWay(base, way)) return
  await mkdir(join(base, 'ways'), { recursive: true, mode: 0o700 })
  await writeFile(markOf(base, way), '', { mode: 0o600 })
}
