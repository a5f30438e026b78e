/** Maps errors of skopeo and registries to messages for app owners. */
import { CommandError } from '../../lib/exec.ts'
import { type ImageReference } from './reference.ts'
import type { UsableRegistry } from './access.ts'
import { ImageError } from '../base/image-error.ts'

type RegistryReference = Extract<ImageReference, { kind: 'registry' }>

interface Fault {
  /** Matches the output of skopeo, which includes the registry's message. */
  readonly pattern: RegExp
  /** Code of the ImageError; undefined if a retry may help. */
  readonly code?: ImageError['code']
  readonly says: (
    image: string,
    registry: string,
    user: Pick<UsableRegistry, 'username' | 'ofProject'> | undefined,
  ) => string
}

/**
 * Known failures of a pull; the first one whose pattern matches is reported. Registries also respond with "denied" for
 * images that do not exist, so that names cannot be guessed.
 */
const faults: readonly Fault[] = [
  {
    pattern: /no such host|name or service not known/i,
    code: 'image_not_found',
    says: (image, registry) => `there is no registry ${registry}: check the name of the image ${image}`,
  },
  {
    pattern: /toomanyrequests|too many requests/i,
    says: (_, registry) => `the registry ${registry} allows no more pulls now`,
  },
  {
    pattern: /unauthorized|denied|authentication required|invalid username\/password|forbidden/i,
    code: 'image_not_found',
    says: (image, registry, user) =>
      user?.ofProject
        ? `the registry ${registry} refuses ${image} to the user ${user.username} of this project: the password is wrong, or the user may not read it (mote registry login ${registry})`
        : `the registry refuses ${image}: it does not exist, or it is private and needs credentials (mote registry login ${registry})`,
  },
  {
    pattern: /manifest unknown|name unknown|not found|status code[^\n]{0,40}404/i,
    code: 'image_not_found',
    says: image => `the registry has no ${image}: check its name and tag`,
  },
  {
    pattern: /x509:|certificate/i,
    code: 'invalid_image',
    says: (_, registry) => `the certificate of the registry ${registry} is not trusted`,
  },
  {
    pattern: /server gave HTTP response to HTTPS client/i,
    code: 'invalid_image',
    says: (_, registry) => `the registry ${registry} does not speak HTTPS`,
  },
]

/**
 * Returns the error for a failed pull: an ImageError if a retry cannot help. The message contains no path or program
 * name of this host.
 */
export function pullFault(reference: RegistryReference, error: CommandError, user?: UsableRegistry): Error {
  const image = `${reference.repository}:${reference.digest ?? reference.tag}`
  const fault = faults.find(({ pattern }) => pattern.test(error.stderr))
  if (!fault) return new Error(`the registry ${reference.registry} cannot be reached, for ${image}`, { cause: error })
  const message = fault.says(image, reference.registry, user)
  return fault.code ? new ImageError(fault.code, message, { cause: error }) : new Error(message, { cause: error })
}

export const noSuchRegistry = (registry: string, cause: unknown) =>
  new ImageError('image_not_found', `there is no registry ${registry}: no such host name`, { cause })
