/**
 * Fetches private images that a Dockerfile starts from. The host uses the project's credential and appends the images
 * to the source disk of the builder, so that the builder never gets a credential.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import type { AskBuildLogin } from '../image/logins.ts'
import { signedIn } from '../image/access.ts'
import type { OneWay } from '../image/oneway.ts'
import { type ImageReference, parseImage } from '../image/reference.ts'
import { copyImage } from '../image/registry.ts'
import { watchSize } from '../image/size-watch.ts'
import { ImageError } from '../base/image-error.ts'
import type { RegistryConfig } from '../base/registry-config.ts'
import { checkDockerfile, type Instruction, instructionsOf } from './dockerfile.ts'
import { BuildFault } from './fault.ts'
import type { SourceTree } from './git.ts'

/** Longer image names are ignored. Without this limit, build arguments could multiply the length of a name. */
const longestName = 1024
/** Limit on images per Dockerfile, because each one needs a request to the control plane for its credential. */
const mostImages = 16
const variable = /\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::-([^{}$]*))?\})/g

type RegistryReference = Extract<ImageReference, { kind: 'registry' }>

/**
 * Returns the images that a Dockerfile names in FROM, `COPY --from` and `RUN --mount`, after replacing build arguments.
 * Build stages, and names with unknown variables, are left out.
 * @param args the build's arguments, which override the defaults of ARG
 */
export function imagesOf(
  instructions: readonly Instruction[],
  args: Readonly<Record<string, string>>,
): readonly string[] {
  const values = new Map<string, string>()
  const stages = new Set<string>()
  const found = new Set<string>()
  const add = (name = '') => {
    if (name.length > longestName) return
    const image = name.replaceAll(variable, (_, plain?: string, braced?: string, fallback?: string) => {
      return values.get(plain ?? braced ?? '') || (fallback ?? '')
    })
    if (image !== 'scratch' && !stages.has(image.toLowerCase()) && isImage(image)) found.add(image)
  }
  let begun = false
  for (const { verb, words } of instructions) {
    const from = words.find(word => word.startsWith('--from='))?.slice('--from='.length)
    if (verb === 'ARG' && !begun)
      for (const word of words) {
        const [name = '', ...rest] = word.split('=')
        values.set(name, args[name] ?? rest.join('=').replaceAll(/^["']|["']$/g, ''))
      }
    else if (verb === 'FROM') {
      begun = true
      const [image, as, stage] = words.filter(word => !word.startsWith('--'))
      add(image)
      if (/^as$/i.test(as ?? '') && stage) stages.add(stage.toLowerCase())
    } else if (verb === 'COPY' || verb === 'ADD') add(from)
    else if (verb === 'RUN')
      for (const word of words)
        if (word.startsWith('--mount=')) add(/(?:^|,)from=([^,]+)/.exec(word.slice('--mount='.length))?.[1])
  }
  return [...found].slice(0, mostImages)
}

/**
 * Checks the Dockerfile and returns the images that it names.
 * @param args the build's arguments
 * @throws BuildFault if the Dockerfile is invalid
 */
export async function basesOf(
  source: Pick<SourceTree, 'read'>,
  dockerfile = 'Dockerfile',
  args: Readonly<Record<string, string>> = {},
): Promise<readonly string[]> {
  const text = await source.read(dockerfile)
  // Large Dockerfiles, whose text `read` does not return, and those with a name that ends with `.in` are only checked
  // by the builder, which also preprocesses the latter.
  if (text === undefined || dockerfile.endsWith('.in')) return []
  const instructions = instructionsOf(text)
  checkDockerfile(dockerfile, instructions)
  return imagesOf(instructions, args)
}

function isImage(name: string): boolean {
  try {
    return !/^\d+$/.test(name) && parseImage(name).kind === 'registry'
  } catch (error) {
    if (error instanceof ImageError) return false
    throw error
  }
}

export interface BasesDeps {
  readonly registries: readonly RegistryConfig[]
  readonly askBuildLogin: AskBuildLogin
  readonly oneWay: () => Promise<OneWay>
  /** Limit on the total size of a Dockerfile's private images. */
  readonly maxBytes: number
}

/**
 * A tar file with one OCI layout per image (`0`, `1` and so on), and the names under which the builder stores the
 * images.
 */
export interface Bases {
  readonly file: string
  readonly names: readonly string[]
}

/**
 * Fetches the images in those registries for which the project has a credential.
 * @param work an empty directory
 * @returns undefined if there is no such image
 * @throws BuildFault if an image cannot be fetched with the credential
 */
export async function fetchBases(
  deps: BasesDeps,
  { buildId, images, work, say }: { buildId: string; images: readonly string[]; work: string; say(line: string): void },
  signal: AbortSignal,
): Promise<Bases | undefined> {
  const dir = join(work, 'bases')
  const names: string[] = []
  const error = () =>
    new BuildFault(`The private images of the Dockerfile exceed the limit of ${deps.maxBytes >> 20} MiB.`)
  await using watch = watchSize(dir, { maxBytes: deps.maxBytes, error })
  const either = AbortSignal.any([signal, watch.signal])
  for (const image of images) {
    const reference = parseImage(image)
    if (reference.kind !== 'registry') continue
    const login = await deps.askBuildLogin(buildId, image, signal)
    if (!login) continue
    say(`fetching ${image} with the registry credential of the project`)
    await mkdir(dir, { recursive: true })
    const registries = signedIn(deps.registries, reference, login)
    await copyImage(reference, join(dir, String(names.length)), registries, either, deps).catch((cause: unknown) => {
      if (watch.signal.aborted) throw watch.signal.reason
      if (cause instanceof ImageError) throw new BuildFault(`Cannot fetch ${image}: ${cause.message}`, { cause })
      throw cause
    })
    names.push(nameOf(reference))
  }
  if (names.length === 0) return undefined
  const file = join(work, 'bases.tar')
  await run('tar', ['-C', dir, '-cf', file, '.'], { signal })
  await rm(dir, { recursive: true })
  return { file, names }
}

/**
 * Returns the name under which the builder stores an image. buildah finds an image that is pinned by digest under any
 * tag of its repository.
 */
const nameOf = ({ repository, tag, digest }: RegistryReference) => `${repository}:${digest === null ? tag : 'pinned'}`

/** Shell code for the builder: loads the images from the disk into buildah's storage, under their names. */
export const namePrivateBases = `# The host has fetched private images: the builder has no credential. Names are image references, which no shell reads otherwise.
if [ -n "\${BASES:-}" ]; then
  mkdir -p /var/tmp/bases
  unpack_behind "$BASES_AT" /var/tmp/bases
  n=0
  set -f
  for name in $BASES; do
    pulled=$($buildah pull -q "oci:/var/tmp/bases/$n:image")
    step "$buildah tag $pulled \\"$name\\""
    n=$((n + 1))
  done
  set +f
  rm -rf /var/tmp/bases
fi
`
