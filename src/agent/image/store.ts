/**
 * The image store: pulls images from registries or reads them from OCI layouts, and caches their bases, the read-only
 * disks that VMs start from.
 */
import { existsSync } from 'node:fs'
import { readFile, rm, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, privateDir } from '../../lib/files.ts'
import { once } from '../../lib/once.ts'
import { cachedDir } from '../guest/cache.ts'
import type { PrepareContext } from '../base/prepare-context.ts'
import {
  type AskLogin,
  type ImageUser,
  isKnownWay,
  registriesFor,
  rememberWay,
  signedIn,
  type UsableRegistry,
  wayOf,
} from './access.ts'
import { type Unprivileged, unprivilegedIn } from '../worker/worker.ts'
import { type BaseForm, buildBase } from './base.ts'
import { limitBases } from './base-limit.ts'
import { RunConfig } from './config.ts'
import { type FoundManifest, findManifest, parseDocument } from './layout.ts'
import { type OneWay, oneWayIn } from './oneway.ts'
import { copyImage, manifestDigest } from './registry.ts'
import { type RegistryConfig } from '../base/registry-config.ts'
import { type ImageReference, parseImage } from './reference.ts'
import { ImageError } from '../base/image-error.ts'
import { sampleLayout, writeSampleImage } from './sample.ts'
import { watchSize } from './size-watch.ts'
import { isEngine } from './engines.ts'
import { ensurePostgresImage } from './postgres/on-demand.ts'
import { keepsSeed, seedOf } from './seed.ts'

export interface Base {
  readonly file: string
  readonly config: RunConfig
  /** Directory with the initial content of new volumes; undefined if new volumes start empty. */
  readonly seed?: string
}

export interface ImageStoreConfig {
  readonly cacheDir: string
  readonly imageDir: string
  readonly registries: readonly RegistryConfig[]
  /** Limit on the unpacked size of one image. */
  readonly maxImageMib: number
  /** Limit on the size of all bases on this host together (`limitBases`); undefined: no limit. */
  readonly baseMib?: number
  /** Requests the registry credential of a VM's project; undefined: no project has credentials. */
  readonly askLogin?: AskLogin
}

interface StoreDeps extends ImageStoreConfig {
  readonly oneWay: () => Promise<OneWay>
  readonly unprivileged: () => Promise<Unprivileged>
}

interface BaseDeps extends StoreDeps {
  readonly form: BaseForm
}

export interface ImageStore {
  /**
   * Returns the image's read-only base, and builds it if this host does not have it.
   * @param user the tenant who needs the image; undefined: the platform itself, which may use any image
   * @throws ImageError
   */
  base(image: string, context: PrepareContext, user?: ImageUser, form?: BaseForm): Promise<Base>
}

/**
 * Creates an image store with one base per manifest digest, in `<cacheDir>/bases`. Two references to an image share one
 * file, and concurrent requests build it once, even requests from other processes.
 */
export function imageStore(config: ImageStoreConfig): ImageStore {
  const { cacheDir } = config
  const deps: StoreDeps = { ...config, oneWay: oneWayIn(cacheDir), unprivileged: unprivilegedIn(cacheDir) }
  return {
    async base(image, context, user, form = 'disk') {
      const reference = parseImage(image)
      if (reference.kind === 'layout') return fromLayout({ ...deps, form }, reference, context)
      const registries = user ? registriesFor(config.registries, user) : config.registries
      return fromRegistry({ ...deps, registries, form }, reference, context, user)
    },
  }
}

type LayoutReference = Extract<ImageReference, { kind: 'layout' }>
type RegistryReference = Extract<ImageReference, { kind: 'registry' }>

async function fromLayout(config: BaseDeps, reference: LayoutReference, context: PrepareContext): Promise<Base> {
  const layoutDir = await layoutOf(config, reference, context)
  const found = await context.time('image', () => findManifest(layoutDir, reference.tag))
  return context.time('base', () =>
    ensureBase(config, { digest: found.digest, withSeed: keepsSeed(reference) }, context, (_partial, use) =>
      use(layoutDir, found),
    ),
  )
}

/**
 * Returns the directory of an OCI layout. The sample and database images of the platform are created when a VM first
 * needs them.
 */
async function layoutOf(
  { cacheDir, imageDir }: BaseDeps,
  { name, tag }: LayoutReference,
  context: PrepareContext,
): Promise<string> {
  if (name === sampleLayout) return sampleIn(cacheDir)
  if (isEngine(name)) await ensurePostgresImage(imageDir, tag, context)
  return join(imageDir, name)
}

/** Increased whenever the content of the sample image changes. */
const sampleVersion = 2

/** Creates the layout of the sample image once per host. @throws ImageError without a static busybox */
function sampleIn(cacheDir: string): Promise<string> {
  const write = async (dir: string) => {
    await writeSampleImage(dir)
  }
  return cachedDir(join(cacheDir, `sample-${sampleVersion}`), write).catch((cause: unknown) => {
    throw new ImageError('image_unusable', 'the sample image needs a static busybox: install busybox-static', { cause })
  })
}

async function fromRegistry(
  config: BaseDeps,
  reference: RegistryReference,
  context: PrepareContext,
  user: ImageUser | undefined,
): Promise<Base> {
  const usable = once(() => usableRegistries(config, reference, context.signal, user))
  const ask = () => context.time('image', async () => manifestDigest(reference, await usable(), context.signal, config))
  const digest = reference.digest ?? (await ask())
  const target = baseDir(config, digest, false)
  const way = wayOf(reference, config.registries, user)
  let isPulledNow = false
  const make = () =>
    ensureBase(config, { digest, withSeed: false }, context, async (partial, use) => {
      isPulledNow = true
      const dir = join(partial, 'pull')
      try {
        context.say(`pulling ${reference.repository}@${digest}`)
        // The size is watched, because a registry may send more than the sizes that the manifest states.
        await using watch = watchSize(dir, { maxBytes: config.maxImageMib * 2 ** 20, error: () => tooLarge(config) })
        const signal = AbortSignal.any([context.signal, watch.signal])
        await copyImage({ ...reference, digest }, dir, await usable(), signal, config).catch((cause: unknown) => {
          throw watch.signal.aborted ? watch.signal.reason : cause
        })
        const found = await findManifest(dir, 'image')
        if (compressedBytes(found) > config.maxImageMib * 2 ** 20) throw tooLarge(config)
        await use(dir, found)
      } finally {
        await rm(dir, { recursive: true, force: true })
      }
    })
  const base = await context.time('base', () => ownPull(make, () => isPulledNow || context.signal.aborted))
  // Knowing a digest does not give access to the image: if another tenant pulled it, the registry must confirm this
  // user's access.
  if (user !== undefined && reference.digest !== null && !isPulledNow && !isKnownWay(target, way)) await ask()
  await rememberWay(target, way)
  return base
}

/**
 * Maximum number of other tenants' failed pulls for which one request waits. There is a limit because a request may
 * also fail without any pull, as on a full disk.
 */
const mostFailedPulls = 100

/**
 * Returns the base. A pull by another tenant, for which this request waited, may fail because that tenant has no access
 * to the image. The base is then requested again, until `isLast` returns that this request made the pull itself.
 */
async function ownPull(make: () => Promise<Base>, isLast: () => boolean): Promise<Base> {
  for (let failed = 1; ; failed++)
    try {
      return await make()
    } catch (error) {
      if (isLast() || failed === mostFailedPulls) throw error
    }
}

/**
 * Returns the registries for the user. Only called before a request to the registry, because it may request a
 * credential from the control plane.
 */
async function usableRegistries(
  { askLogin, registries }: BaseDeps,
  reference: RegistryReference,
  signal: AbortSignal,
  user: ImageUser | undefined,
): Promise<readonly UsableRegistry[]> {
  if (user?.signsInFor === undefined) return registries
  return signedIn(registries, reference, await askLogin?.(user.signsInFor, signal))
}

/**
 * Returns the directory of a base. A base with a seed has a name of its own: an image with the same digest from an
 * untrusted source must get a base without a seed.
 */
const baseDir = ({ cacheDir, form }: Pick<BaseDeps, 'cacheDir' | 'form'>, digest: string, withSeed: boolean) =>
  join(cacheDir, 'bases', `${digest.replace(':', '-')}${withSeed ? '-seed' : ''}${form === 'disk' ? '' : `-${form}`}`)

/** Calls `use` with a directory that contains the image's OCI layout. Temporary files are created in `partial`. */
type WithLayout = (partial: string, use: (layoutDir: string, found: FoundManifest) => Promise<void>) => Promise<void>

async function ensureBase(
  config: BaseDeps,
  { digest, withSeed }: { readonly digest: string; readonly withSeed: boolean },
  context: PrepareContext,
  withLayout: WithLayout,
): Promise<Base> {
  // Only the agent may access this directory, because a base is a tenant's data. Each VMM gets access to the base of
  // its own VM.
  await privateDir(join(config.cacheDir, 'bases'))
  const target = baseDir(config, digest, withSeed)
  const isNew = !existsSync(target)
  if (isNew) context.say(`building the base of ${digest.slice(0, 19)}`)
  await touch(target)
  const dir = await cachedDir(target, async partial => {
    const maxBytes = config.maxImageMib * 2 ** 20
    const options = { maxBytes, withSeed, form: config.form, unprivileged: await config.unprivileged() }
    // The signal of the VM that needed the base first does not abort the build, because other VMs may wait for the same
    // base.
    await withLayout(partial, (layoutDir, found) =>
      buildBase({ layoutDir, found, digest }, partial, options, AbortSignal.timeout(buildLimitMs)),
    )
  })
  if (isNew) void limited(config, context)
  const text = await readFile(join(dir, 'image.json'), 'utf8')
  const seed = withSeed ? seedOf(dir) : undefined
  const base = { file: join(dir, 'base.img'), config: parseDocument(RunConfig, text, 'image.json') }
  return { ...base, ...(seed === undefined ? {} : { seed }) }
}

/** Records the time of use. This happens before a VM uses the base, so that the base is not removed at that moment. */
async function touch(dir: string): Promise<void> {
  const now = new Date()
  await utimes(dir, now, now).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT')) throw error
  })
}

/**
 * Removes unused bases in the background, after a base was built. If that fails, the next build of a base tries again.
 */
async function limited({ cacheDir, baseMib: maxMib }: BaseDeps, { say }: PrepareContext): Promise<void> {
  if (maxMib === undefined) return
  await limitBases({ cacheDir, maxMib }).catch((error: unknown) => say(`cannot remove unused bases: ${String(error)}`))
}

const buildLimitMs = 15 * 60_000

const compressedBytes = (found: FoundManifest) => found.manifest.layers.reduce((sum, layer) => sum + layer.size, 0)
const tooLarge = (config: ImageStoreConfig) =>
  new ImageError('image_too_large', `the image is larger than the limit of ${config.maxImageMib} MiB`)
