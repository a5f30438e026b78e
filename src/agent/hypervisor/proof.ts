import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'
import { causeOfSilence } from './silent-guest.ts'

/**
 * Returns undefined if a test boot (`prove`) shows that KVM works, otherwise the reason why not. The result is cached
 * until the host reboots, because a test boot can take seconds.
 * @param about the versions of the programs involved: with another value, the test is repeated
 */
export async function cachedProof(
  cacheDir: string,
  about: string,
  signal: AbortSignal,
  prove: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const file = await proofFile(cacheDir, about)
  const known = await readIfExists(file)
  if (known !== undefined) return known || undefined
  const reason = await prove()
  signal.throwIfAborted()
  await mkdir(dirname(file), { recursive: true })
  await writeFileAtomic(file, reason ?? '')
  return reason
}

/** Like `cachedProof`, but caches only success: a test that failed on a busy host may succeed the next time. */
export async function cachedPass(
  cacheDir: string,
  about: string,
  prove: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const file = await proofFile(cacheDir, about)
  if ((await readIfExists(file)) !== undefined) return undefined
  const reason = await prove()
  if (reason !== undefined) return reason
  await mkdir(dirname(file), { recursive: true })
  await writeFileAtomic(file, '')
  return undefined
}

async function proofFile(cacheDir: string, about: string): Promise<string> {
  const bootId = await readIfExists('/proc/sys/kernel/random/boot_id')
  const key = createHash('sha256').update(`${bootId} ${process.getuid?.()} ${about}`).digest('hex').slice(0, 16)
  return join(cacheDir, 'kvm-proof', key)
}

/** Waits for the message of Mote's init about missing disks, which proves that kernel, memory and user space work. */
export async function untilInitSpeaks(
  tail: () => Promise<string>,
  ended: Promise<never>,
  limitMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const deadline = performance.now() + limitMs
  let over = false
  ended.catch(() => (over = true))
  while (performance.now() < deadline && !signal.aborted) {
    if ((await tail()).includes('mote-init:')) return undefined
    if (over) return ended.catch((error: unknown) => (error instanceof Error ? error.message : String(error)))
    await sleep(10)
  }
  // Omits the next step, because `mote doctor` would only repeat this test boot.
  return `the test boot did not finish in ${limitMs / 1000} s: ${causeOfSilence({ console: await tail() }).says}`
}
