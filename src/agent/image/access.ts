/**
 * Decides which tenant may use which image. The credentials of the operator's registries are used for projects that the
 * operator named and for images built by the platform; a project's credential only for that project. A cached image may
 * only be used by tenants who could have pulled it themselves.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RegistryLogin } from '../../contract/agent.ts'
import { registryHost } from '../../lib/registry-host.ts'
import { ImageError } from '../base/image-error.ts'
import type { ImageReference } from './reference.ts'
import type { RegistryConfig } from '../base/registry-config.ts'

type RegistryReference = Pick<Extract<ImageReference, { kind: 'registry' }>, 'registry' | 'repository'>

/** The tenant for whom an image is fetched. */
export interface ImageUser {
  readonly projectId: string
  /** Whether the platform built the image for an app of this project. The control plane has checked this. */
  readonly builtImage?: boolean | undefined
  /**
   * Id of the VM for which the host requests the project's registry credential from the control plane; undefined if the
   * project has none for the registry.
   */
  readonly signsInFor?: string | undefined
}

/** A registry, with the credential that a certain user may use. */
export interface UsableRegistry extends RegistryConfig {
  /** Whether the credential is one of the project instead of the operator. */
  readonly ofProject?: true
  /** Whether the address must be public, because the operator did not configure this registry. */
  readonly isGuarded?: boolean
}

/** Requests the registry credential of the VM's project from the control plane; undefined if the project has none. */
export type AskLogin = (vmId: string, signal: AbortSignal) => Promise<RegistryLogin | undefined>

export const everyProject = '*'

/** Returns the registries for this user, without credentials that only other users may use. */
export function registriesFor(registries: readonly RegistryConfig[], user: ImageUser): readonly RegistryConfig[] {
  return registries.map(one => {
    const isOpen = one.projects?.some(project => project === everyProject || project === user.projectId) ?? false
    if (isOpen || user.builtImage || one.username === undefined) return one
    const { username: _, password: __, ...anonymous } = one
    return anonymous
  })
}

/**
 * Returns the image's registry with the project's credential, and no other registry.
 * @throws ImageError `image_not_found` if the project has no credential for that registry
 */
export function signedIn(
  registries: readonly RegistryConfig[],
  { registry }: RegistryReference,
  login: RegistryLogin | undefined,
): readonly UsableRegistry[] {
  if (login === undefined || registryHost(login.host) !== registryHost(registry))
    throw new ImageError(
      'image_not_found',
      `this project has no credential for the image: mote registry login ${registry}`,
    )
  const { username, password, own } = login
  const named = registries.find(({ host }) => host === registry)
  const plainHttp = own?.plainHttp ?? named?.plainHttp ?? false
  const isGuarded = named === undefined && own === undefined
  return [{ host: registry, plainHttp, username, password, ofProject: true, isGuarded }]
}

/**
 * Returns a key for the credential with which a user accesses an image. Users with the same key share a fetched image.
 */
export function wayOf(reference: RegistryReference, registries: readonly RegistryConfig[], user?: ImageUser): string {
  if (user?.signsInFor !== undefined) return `project ${user.projectId} ${reference.repository}`
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
