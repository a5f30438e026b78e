import { readdir, readlink, realpath } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { identifyProcess, isRunning, type ProcessIdentity } from '../lib/process-identity.ts'
import type { AgentConfig } from './base/config.ts'
import { removePartial, partialSuffix } from './guest/cache.ts'
import type { Driver } from './hypervisor/driver.ts'
import { limitBases, registerAgent } from './image/base-limit.ts'
import type { StateDir, StoredVm } from './state.ts'

export interface ReclaimInput {
  readonly state: StateDir
  readonly stored: { readonly vms: readonly StoredVm[]; readonly rubbish: readonly string[] }
  readonly drivers: Iterable<Driver>
  readonly cacheDir: string
  readonly vmsDir: string
  readonly log: Logger
}

/**
 * Removes leftovers of a crashed agent, in an order in which nothing that is still in use is removed: processes without
 * a record, then taps and addresses, then incomplete directories and expired tombstones, then incomplete files in the
 * cache.
 */
export async function reclaim({ state, stored, cacheDir, vmsDir, log, ...input }: ReclaimInput): Promise<void> {
  const drivers = [...input.drivers]
  const known = stored.vms.map(({ record }) => record.running?.process).filter(process => process !== undefined)
  for (const stray of await strays(vmsDir, known)) {
    log.warn({ pid: stray.pid }, 'killing a VM process that has no record')
    await end(stray)
  }
  const keep = new Set(stored.vms.map(({ desired }) => desired.vmId))
  for (const driver of drivers) await driver.reclaim(keep)
  await state.prune(stored.rubbish)
  await removePartials(cacheDir)
}

/**
 * Removes the least recently used bases (unpacked images) beyond the limit. Before that, registers this agent, so that
 * other agents keep the bases of its VMs and snapshots.
 */
export async function reclaimBases(
  { cacheDir, baseMib }: Pick<AgentConfig, 'cacheDir' | 'baseMib'>,
  dataDir: string,
  log: Logger,
): Promise<void> {
  await registerAgent(resolve(cacheDir), resolve(dataDir))
  const removed = await limitBases({ cacheDir: resolve(cacheDir), maxMib: baseMib })
  if (removed.length > 0) log.info({ bases: removed.length }, 'removed the least recently used unpacked images')
}

/** Finds VMMs without a record: processes whose working directory is in a VM's directory; only VMMs start there. */
async function strays(vmsDir: string, known: readonly ProcessIdentity[]): Promise<ProcessIdentity[]> {
  const root = (await realpath(vmsDir)) + sep
  const found: ProcessIdentity[] = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid) || pid === process.pid) continue
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '')
    const identity = cwd.startsWith(root) ? identifyProcess(pid) : undefined
    if (identity && !known.some(one => one.pid === pid && one.startTicks === identity.startTicks)) found.push(identity)
  }
  return found
}

async function end(identity: ProcessIdentity): Promise<void> {
  if (isRunning(identity)) process.kill(identity.pid, 'SIGKILL')
  while (isRunning(identity)) await sleep(5)
}

/** Removes incomplete files from the cache, except for files that another agent is building under a lock. */
async function removePartials(cacheDir: string): Promise<void> {
  for (const dir of ['bases', 'initrd', 'init', 'templates', 'toolchains', '.']) {
    const names = await readdir(join(cacheDir, dir)).catch(() => [])
    for (const name of names.filter(one => one.endsWith(partialSuffix))) {
      await removePartial(join(cacheDir, dir, name))
    }
  }
}
