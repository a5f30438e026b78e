/**
 * Recognizes images built by the platform. Their location contains the app's id, so the caller can check the app's
 * project before using one.
 */
import { isUuid } from '../../lib/ids.ts'
import { registryHost } from '../../lib/registry-host.ts'

/**
 * Returns the id of the app whose build made the image, or undefined for any other image.
 * @param registry `MOTE_REGISTRY`; when empty, built images exist only as OCI layouts on their host
 */
export function builtFor(image: string, registry: string): string | undefined {
  const layout = /^oci:app-([^:]+)/.exec(image)?.[1]
  if (layout !== undefined) return isUuid(layout) ? layout.toLowerCase() : undefined
  return inRegistry(image, registry)
}

/**
 * Returns the app id of an image in the registry of built images. Hosts fetch such images with the operator's
 * credentials.
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
    .replace(/[:@].*$/, '')

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
