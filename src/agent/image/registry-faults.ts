/** What went wrong between skopeo and a registry, in the words of the person who named the image. */
import { CommandError } from '../../lib/exec.ts'
import { type ImageReference } from './reference.ts'
import { ImageError } from '../base/image-error.ts'

type RegistryReference = Extract<ImageReference, { kind: 'registry' }>

interface Fault {
  /** Of what skopeo and the registry say. */
  readonly pattern: RegExp
  /** Absent: another try may help. */
  readonly code?: ImageError['code']
  readonly says: (image: string, registry: string) => string
}

/** The first that matches. Registries answer "denied" for what does not exist, too, so that nobody can look for names. */
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
    says: image => `the registry refuses ${image}: it does not exist, or it is private and needs credentials`,
  },
  {
    pattern: /manifest unknown|name unknown|not found|status code[^\n]*404/i,
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

/** An ImageError where trying again cannot help. Neither has a path of this host or the name of a program of it. */
export function pullFault(reference: RegistryReference, error: CommandError): Error {
  const image = `${reference.repository}:${reference.digest ?? reference.tag}`
  const fault = faults.find(({ pattern }) => pattern.test(error.stderr))
  if (!fault) return new Error(`the registry ${reference.registry} cannot be reached, for ${image}`, { cause: error })
  const message = fault.says(image, reference.registry)
  return fault.code ? new ImageError(fault.code, message, { cause: error }) : new Error(message, { cause: error })
}

export const noSuchRegistry = (registry: string, cause: unknown) =>
  new ImageError('image_not_found', `there is no registry ${registry}: no such host name`, { cause })
