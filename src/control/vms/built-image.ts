/**
 * Recognizes images built by the platform. Their location contains the app's id, so the caller can check the app's
 * project before using one.
 */
import { isUuid } from '../../lib/ids.ts'
import { registryHost } from '../../lib/registry-host.ts'
import type { ControlConfig } from '../base/config.ts'

export type BuiltRegistries = Pick<ControlConfig, 'registry' | 'registryUrl'>

/** Where built images are in the installation's own registry. No project has such a name: it is not a slug. */
export const builtPath = 'mote.builds'

/** Returns the installation's own registry, as image references name it; undefined if there is none. */
export const ownRegistryHost = ({ registryUrl }: Pick<ControlConfig, 'registryUrl'>): string | undefined =>
  registryUrl === '' ? undefined : registryHost(new URL(registryUrl).host)

/** Whether other hosts reach the installation's own registry, as far as its address tells. */
function isOwnRegistryShared({ registryUrl }: Pick<ControlConfig, 'registryUrl'>): boolean {
  const { hostname } = URL.parse(registryUrl) ?? { hostname: 'localhost' }
  return hostname !== 'localhost' && hostname !== '[::1]' && !hostname.startsWith('127.')
}

/**
 * Returns the repository for the images that are built for an app. With several hosts, the installation's own registry
 * is used if the operator has named no other.
 * @returns null: an OCI layout on the host
 */
export function builtRepository(config: BuiltRegistries, appId: string, hosts: number): string | null {
  if (config.registry !== '') return `${config.registry}/${appId}`
  if (hosts < 2 || !isOwnRegistryShared(config)) return null
  return `${ownRegistryHost(config)}/${builtPath}/${appId}`
}

/**
 * Returns the id of the app whose build made the image, or undefined for any other image.
 */
export function builtFor(image: string, config: BuiltRegistries): string | undefined {
  const layout = /^oci:app-([^:]+)/.exec(image)?.[1]
  if (layout !== undefined) return isUuid(layout) ? layout.toLowerCase() : undefined
  const own = ownRegistryHost(config)
  return inRegistry(image, config.registry) ?? inRegistry(image, own === undefined ? '' : `${own}/${builtPath}`)
}

/**
 * Returns the app id of an image in a registry of built images.
 * @param registry `MOTE_REGISTRY`, of which hosts fetch images with the operator's credentials; empty: none
 */
export function inRegistry(image: string, registry: string): string | undefined {
  if (registry === '' || image.startsWith('oci:')) return undefined
  const [given, own] = [canonical(image), `${canonical(`${registry}/x`).slice(0, -1)}`]
  if (!given.startsWith(own)) return undefined
  const [app = ''] = given.slice(own.length).split(/[/:@]/)
  return isUuid(app) ? app : undefined
}

/** Returns the registry of an image, as credentials name it; undefined for an OCI layout. */
export function registryOf(image: string): string | undefined {
  if (image.startsWith('oci:')) return undefined
  return registryHost(canonical(image).split('/')[0] ?? '')
}

/** Returns the repository of an image within its registry: `team/app` of `ghcr.io/team/app:1@sha256:...`. */
export const repositoryOf = (image: string) =>
  canonical(image)
    .replace(/^[^/]*\//, '')
    .replace(/[:@].*/s, '')

/**
 * Normalizes a repository name to the one spelling that registries and skopeo treat as equal: lower case, one name for
 * Docker Hub.
 */
function canonical(image: string): string {
  const [first = ''] = image.split('/')
  const hasHost = image.includes('/') && (/[.:]/.test(first) || first === 'localhost')
  const text = (hasHost ? image : `docker.io/${image}`).toLowerCase().replaceAll(/\/{2,}/g, '/')
  return text.replace(/^(?:index|registry-1|registry\.hub|www)\.docker\.(?:io|com)\//, 'docker.io/')
}
