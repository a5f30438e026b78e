/**
 * Fences other hosts off an image in a Ceph pool. The generation of the volume's newest attachment is stored with the
 * image.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, Type } from 'typebox'
import { CommandError } from '../../lib/exec.ts'
import { StepError } from '../base/step-error.ts'
import { type RbdImages, rbdJson } from './rbd-images.ts'

interface Fencing extends Pick<RbdImages, 'rbd'> {
  /** How long to wait for the previous host to close the image, in milliseconds. */
  readonly patienceMs: number
}

const Lock = Type.Object({ id: Type.String(), locker: Type.String() })
const Locks = Type.Array(Lock)

const lockPollMs = 250
/** Exit code of rbd(8) for ENOENT. */
const noEntry = 2
const generationKey = 'mote.generation'

/** Fences the previous writer. Resolves once no writer with a smaller generation can write to the image any more. */
export async function fence(fencing: Fencing, spec: string, generation: number): Promise<void> {
  const { rbd } = fencing
  // The locks are listed before our generation is stored: a host that locks the image later may have a newer
  // generation.
  const before = await locksOf(fencing, spec)
  await refuseOlder(fencing, spec, generation)
  await rbd('image-meta', 'set', spec, generationKey, String(generation))
  // Breaking a lock blocklists the lock's host for all images, so a host that is about to close the image gets time.
  const late = (await waitForLocks(fencing, spec)).filter(lock => before.some(one => isSame(one, lock)))
  for (const lock of late) {
    await refuseOlder(fencing, spec, generation)
    await rbd('lock', 'rm', spec, lock.id, lock.locker)
  }
}

/**
 * Checks that a VM may open the image for reading.
 * @throws StepError `stale_volume_generation` after a newer attachment, `volume_in_use` while a host has the image open
 * for writing
 */
export async function assertNobodyWrites(fencing: Fencing, spec: string, generation: number): Promise<void> {
  await refuseOlder(fencing, spec, generation)
  const [writer] = await waitForLocks(fencing, spec)
  if (writer)
    throw new StepError('volume_in_use', `${writer.locker} of the cluster still has the volume open for writing`)
}

/**
 * Checks that no newer attachment has opened the image.
 * @throws StepError `stale_volume_generation` if the image has a higher stored generation than `generation`
 */
export async function refuseOlder({ rbd }: Pick<Fencing, 'rbd'>, spec: string, generation: number): Promise<void> {
  const known = (await rbd('image-meta', 'get', spec, generationKey).catch(absent)).trim()
  if (generation < Number(known || 0))
    throw new StepError('stale_volume_generation', `the volume was attached under generation ${known} elsewhere`)
}

const locksOf = (fencing: Pick<Fencing, 'rbd'>, spec: string) => rbdJson(fencing, Locks, 'lock', 'ls', spec)

/**
 * Returns the locks that writers still hold after `patienceMs`. A writer holds its lock until it unmaps the image.
 * Readers hold no lock.
 */
async function waitForLocks(fencing: Fencing, spec: string): Promise<Static<typeof Locks>> {
  for (const endMs = performance.now() + fencing.patienceMs; performance.now() < endMs; await sleep(lockPollMs))
    if ((await locksOf(fencing, spec)).length === 0) return []
  return locksOf(fencing, spec)
}

const isSame = (one: Static<typeof Lock>, other: Static<typeof Lock>) =>
  one.id === other.id && one.locker === other.locker

/** Maps the error for an image without a stored generation to an empty string, and throws any other error. */
function absent(error: unknown): string {
  if (error instanceof CommandError && error.exitCode === noEntry) return ''
  throw error
}
