import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Value } from 'typebox/value'
import { hostProxy } from '../../lib/child-env.ts'
import { CommandError, run } from '../../lib/exec.ts'
import { checkPublicHost, internetOnly, type Lookup, PrivateHostError } from '../../lib/public-host.ts'
import { slimDocument } from './document.ts'
import { Index, platform } from './layout.ts'
import { type ImageReference, parseImage } from './reference.ts'
import { hostFull, isDiskFull } from '../base/disk-full.ts'
import { ImageError } from '../base/image-error.ts'
import type { UsableRegistry } from './access.ts'
import { noSuchRegistry, pullFault } from './registry-faults.ts'
import { directly, guardedWay, type WayOut, type Ways } from './way-out.ts'

type RegistryReference = Extract<ImageReference, { kind: 'registry' }>

/**
 * Resolves a tag to the digest of the image for this host's platform. Needs one or two small requests, and stores
 * nothing.
 */
export async function manifestDigest(
  reference: RegistryReference,
  registries: readonly UsableRegistry[],
  signal: AbortSignal,
  ways: Ways = {},
): Promise<string> {
  const use = async (skopeo: Skopeo) => {
    const raw = await skopeo([
      'inspect',
      '--raw',
      ...noVerify(reference, registries, '--tls-verify=false'),
      source(reference),
    ])
    const document: unknown = JSON.parse(await slimDocument(raw))
    if (!Value.Check(Index, document)) return `sha256:${createHash('sha256').update(raw).digest('hex')}`
    const fits = document.manifests.find(
      entry => entry.platform?.os === platform.os && entry.platform.architecture === platform.architecture,
    )
    if (fits) return fits.digest
    throw new ImageError('image_unusable', `the image has no variant for ${platform.os}/${platform.architecture}`)
  }
  return withSkopeo(reference, registries, signal, use, ways)
}

/**
 * Copies the image for this host's platform into an OCI layout at `dir`, tagged `image`. skopeo checks every digest.
 * Uncompressed layers are not compressed: that would take as long as the rest of the copy, and the agent would have to
 * decompress them again.
 */
export async function copyImage(
  reference: RegistryReference,
  dir: string,
  registries: readonly UsableRegistry[],
  signal: AbortSignal,
  ways: Ways = {},
): Promise<void> {
  const platformArgs = ['--override-os', platform.os, '--override-arch', platform.architecture]
  const copy = (skopeo: Skopeo) =>
    skopeo([
      ...platformArgs,
      ...['copy', '-q', '--dest-oci-accept-uncompressed-layers'],
      ...noVerify(reference, registries, '--src-tls-verify=false'),
      source(reference),
      `oci:${dir}:image`,
    ])
  await withSkopeo(reference, registries, signal, copy, ways)
}

/**
 * Copies the image with this tag from an OCI layout to a registry without changing it, which preserves its digest.
 * @param to a reference that `parseImage` accepts
 */
export async function pushImage(
  layoutDir: string,
  tag: string,
  to: string,
  registries: readonly UsableRegistry[],
  signal: AbortSignal,
): Promise<void> {
  const reference = parseImage(to)
  if (reference.kind !== 'registry') throw new ImageError('invalid_image', `"${to}" is not in a registry`)
  await withSkopeo(reference, registries, signal, skopeo =>
    skopeo([
      ...['copy', '-q', '--preserve-digests', ...noVerify(reference, registries, '--dest-tls-verify=false')],
      ...[`oci:${layoutDir}:${tag}`, source(reference)],
    ]),
  )
}

function source({ repository, tag, digest }: RegistryReference): string {
  return `docker://${repository}${digest === null ? `:${tag}` : `@${digest}`}`
}

function noVerify(reference: RegistryReference, registries: readonly UsableRegistry[], flag: string): string[] {
  return registries.some(({ host, plainHttp }) => host === reference.registry && plainHttp) ? [flag] : []
}

/**
 * Refuses registries in private networks unless the operator has configured them, because users choose registries but
 * the host connects to them.
 * @throws ImageError `invalid_image`
 */
async function refusePrivate({ registry }: RegistryReference, lookup: Lookup | undefined): Promise<void> {
  const host = registry.replace(/:\d+$/, '')
  await checkPublicHost(host, internetOnly, lookup).catch((error: unknown) => {
    if (error instanceof PrivateHostError) throw privateRegistry(registry, error)
    // On a host behind a proxy, often only the proxy can resolve public names, so an unknown name is no error.
    if (Reflect.get(Object(error), 'code') === 'ENOTFOUND' && !hostProxy()) throw noSuchRegistry(registry, error)
  })
}

function privateRegistry(registry: string, cause?: unknown): ImageError {
  const how = 'an operator may allow it (MOTE_PRIVATE_REGISTRIES)'
  return new ImageError('invalid_image', `the registry ${registry} has a private address; ${how}`, { cause })
}

/**
 * Chooses how skopeo connects: directly to registries that the operator configured, even with a project's credential,
 * and to other registries through a proxy that checks addresses.
 */
async function wayTo(
  reference: RegistryReference,
  registries: readonly UsableRegistry[],
  dir: string,
  ways: Ways,
): Promise<WayOut> {
  if (registries.some(({ host, isGuarded }) => host === reference.registry && !isGuarded)) return directly
  await refusePrivate(reference, ways.lookup)
  return guardedWay(dir, ways)
}

const pullLimitMs = 10 * 60_000

type Skopeo = (args: readonly string[]) => Promise<string>

/**
 * Runs skopeo with credentials and policy in private files. They are not passed as arguments, which every user of the
 * host can see.
 */
async function withSkopeo<T>(
  reference: RegistryReference,
  registries: readonly UsableRegistry[],
  signal: AbortSignal,
  use: (skopeo: Skopeo) => Promise<T>,
  ways: Ways = {},
): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-skopeo-'))
  let refused: readonly string[] = []
  try {
    await using way = await wayTo(reference, registries, dir, ways)
    refused = way.refused
    const policy = join(dir, 'policy.json')
    const auth = join(dir, 'auth.json')
    await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
    await writeFile(auth, JSON.stringify({ auths: credential(registries, reference) }), { mode: 0o600 })
    return await use(([...args]) => {
      const verb = args.findIndex(arg => arg === 'copy' || arg === 'inspect')
      args.splice(verb + 1, 0, '--authfile', auth)
      const command = way.command('skopeo', ['--policy', policy, ...args])
      return run(command.program, command.args, {
        signal,
        timeoutMs: pullLimitMs,
        env: way.environment,
        network: true,
        outputBytes: 8 << 20,
      })
    })
  } catch (error) {
    if (refused.length > 0) throw privateRegistry(refused.join(', '), error)
    if (isDiskFull(error)) throw hostFull('pull the image', error)
    throw error instanceof CommandError ? pullFault(reference, error, userOf(registries, reference)) : error
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

const userOf = (registries: readonly UsableRegistry[], { registry }: RegistryReference) =>
  registries.find(({ host, username }) => host === registry && username !== undefined)

/** Returns skopeo's auth file with only the credential for the registry of the image. */
function credential(
  registries: readonly UsableRegistry[],
  reference: RegistryReference,
): Record<string, { auth: string }> {
  const user = userOf(registries, reference)
  if (!user) return {}
  return { [user.host]: { auth: Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64') } }
}
