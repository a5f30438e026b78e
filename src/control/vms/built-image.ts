/** Images that we built: where they are kept names the app, so that its project can be asked for before one is used. */
import { isUuid } from '../../lib/ids.ts'

/**
 * The app whose build made the image; undefined for any other image.
 * @param registry `MOTE_REGISTRY`; empty: built images are layouts of their host only
 */
export function builtFor(image: string, registry: string): string | undefined {
  const layout = /^oci:app-([^:]+)/.exec(image)?.[1]
  if (layout !== undefined) return isUuid(layout) ? layout.toLowerCase() : undefined
  return inRegistry(image, registry)
}

/** Of an image in the registry of built images; the host fetches it with the operator's credentials. */
export function inRegistry(image: string, registry: string): string | undefined {
  if (registry === '' || image.startsWith('oci:')) return undefined
  const [given, own] = [canonical(image), `${canonical(`${registry}/x`).slice(0, -1)}`]
  if (!given.startsWith(own)) return undefined
  const [app = ''] = given.slice(own.length).split(/[/:@]/)
  return isUuid(app) ? app : undefined
}

/** One spelling for what registries and skopeo take as the same repository: the host in lower case, Docker Hub by one name. */
function canonical(image: string): string {
  const [first = ''] = image.split('/')
  const hasHost = image.includes('/') && (/[.:]/.test(first) || first === 'localhost')
  const text = (hasHost ? image : `docker.io/${image}`).toLowerCase().replaceAll(/\/{2,}/g, '/')
  return text.replace(/^(?:index|registry-1|registry\.hub|www)\.docker\.(?:io|com)\//, 'docker.io/')
}
