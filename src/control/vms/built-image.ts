/**
 * Recognizes images that were built by the platform. The name of a built image contains the id of the app that it was
 * built for, so that a caller can check the app's project before it uses the image.
 */
import { isUuid } from '../../lib/ids.ts'
import { registryHost } from '../../lib/registry-host.ts'
import type { ControlConfig } from '../base/config.ts'

export type BuiltRegistries = Pick<ControlConfig, 'registry' | 'registryUrl'>

/**
 * Path of built images in the installation's own registry. It cannot clash with a project's path, because a project
 * slug has no dot.
 */
export const builtPath = 'mote.builds'

/**
 * Returns the host and port of the installation's own registry as they appear in image references; undefined if there
 * is none.
 */
export const ownRegistryHost = ({ registryUrl }: Pick<ControlConfig, 'registryUrl'>): string | undefined =>
  registryUrl === '' ? undefined : registryHost(new URL(registryUrl).host)

/**
 * Returns whether other hosts can reach the installation's own registry, that is, whether its address is not a
 * loopback address.
 */
function isOwnRegistryShared({ registryUrl }: Pick<ControlConfig, 'registryUrl'>): boolean {
  const { hostname } = URL.parse(registryUrl) ?? { hostname: 'localhost' }
  return hostname !== 'localhost' && hostname !== '[::1]' && !hostname.startsWith('127.')
}

/**
 * Returns the repository to which builds of an app are pushed. If the operator has not configured a registry, an
 * installation with several hosts uses its own.
 * @returns null: builds stay on their host as an OCI layout
 */
export function builtRepository(config: BuiltRegistries, appId: string, hosts: number): string | null {
  if (config.registry !== '') return `${config.registry}/${appId}`
  if (hosts < 2 || !isOwnRegistryShared(config)) return null
  return `${ownRegistryHost(config)}/${builtPath}/${appId}`
}

/** Returns the id of the app that the image was built for; undefined if the platform did not build the image. */
export function builtFor(image: string, config: BuiltRegistries): string | undefined {
  const layout = /^oci:app-([^:]+)/.exec(image)?.[1]
  if (layout !== undefined) return isUuid(layout) ? layout.toLowerCase() : undefined
  const own = ownRegistryHost(config)
  return inRegistry(image, config.registry) ?? inRegistry(image, own === undefined ? '' : `${own}/${builtPath}`)
}

/**
 * Returns the id of the app that the image was built for, if the image is in this registry.
 * @param registry `MOTE_REGISTRY`, from which hosts pull with the operator's credentials; empty: none
 */
export function inRegistry(image: string, registry: string): string | undefined {
  if (registry === '' || image.startsWith('oci:')) return undefined
  const [given, own] = [canonical(image), `${canonical(`${registry}/x`).slice(0, -1)}`]
  if (!given.startsWith(own)) return undefined
  const [app = ''] = given.slice(own.length).split(/[/:@]/)
  return isUuid(app) ? app : undefined
}

/**
 * Returns the host of an image's registry, normalized like the hosts of stored credentials; undefined for an OCI
 * layout.
 */
export function registryOf(image: string): string | undefined {
  if (image.startsWith('oci:')) return undefined
  return registryHost(canonical(image).split('/')[0] ?? '')
}

/** Returns an image's repository within its registry: `team/app` for `ghcr.io/team/app:1@sha256:...`. */
export const repositoryOf = (image: string) =>
  canonical(image)
    .replace(/^[^/]*\//, '')
    .replace(/[:@].*/s, '')

/** Normalizes an image name: registries and skopeo ignore case, repeated slashes and the aliases of Docker Hub. */
function canonical(image: string): string {
  const [first = ''] = image.split('/')
  const hasHost = image.includes('/') && (/[.:]/.test(first) || first === 'localhost')
  const text = (hasHost ? image : `docker.io/${image}`).toLowerCase().replaceAll(/\/{2,}/g, '/')
  return text.replace(/^(?:index|registry-1|registry\.hub|www)\.docker\.(?:io|com)\//, 'docker.io/')
}
