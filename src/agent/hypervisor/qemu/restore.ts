import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { encodeWord } from '../../guest/words.ts'
import type { Machine, PrepareContext, SnapshotSource, VmHome } from '../driver.ts'
import type { QemuDeps } from './driver.ts'
import { type Launch, launch } from './launch.ts'
import { enableMemoryStats } from './balloon.ts'
import { parseWorkload, qemuMachine } from './machine.ts'
import { type QemuNotes, readNotes } from './prepare.ts'
import { privateMemoryEnv } from './private-memory.ts'
import { snapshotFiles } from './snapshot.ts'
import { loadState } from './state-file.ts'

const identityMs = 5_000

/**
 * A VM that goes on from a snapshot. Its memory maps the snapshot's file privately, so clones share what none of them
 * has changed. The link comes up only when the guest has its own addresses.
 */
export async function restoreVm(
  deps: Pick<QemuDeps, 'cacheDir'>,
  plan: Omit<Launch, 'start' | 'env' | 'fromSeq'>,
  from: SnapshotSource,
  madeBy: string,
  context: PrepareContext,
): Promise<Machine> {
  const { home, prepared, watcher } = plan
  const notes = readNotes(prepared)
  const logSeq = Number(from.made.notes.logSeq)
  const memoryFile = from.made.notes.memoryApart === 1 ? join(from.dir, snapshotFiles.memory) : undefined
  await context.time('disk', () =>
    run('cp', ['--sparse=always', '--reflink=auto', '--', join(from.dir, snapshotFiles.scratch), join(home.dir, 'scratch.img')]),
  )
  const env = memoryFile === undefined ? {} : await privateMemoryEnv(deps.cacheDir, memoryFile)
  const start = { kind: 'incoming', then: 'stay-paused', ...(memoryFile ? { memoryFile } : {}) } as const
  return launch({ ...plan, start, env, fromSeq: logSeq }, context, async ({ qmp, guest, running, console, unlessEnded }) => {
    const state = join(from.dir, snapshotFiles.state)
    await context.time('load', () => unlessEnded(loadState(qmp, home.dir, state, memoryFile !== undefined)))
    const moved = from.renew || from.made.notes.guest !== notes.guest || from.made.notes.mac !== notes.mac
    const status = await context.time('resume', async () => {
      if (moved) await qmp.execute('set_link', { name: 'n0', up: false })
      await qmp.execute('cont')
      await unlessEnded(guest.request(`identity ${identity(home, notes, { moved, renew: from.renew })}`, identityMs))
      if (moved) await qmp.execute('set_link', { name: 'n0', up: true })
      return unlessEnded(guest.ready)
    })
    await enableMemoryStats(qmp)
    const workload = parseWorkload(status)
    return qemuMachine({
      ...{ running, qmp, guest, console, watcher, workload, madeBy, tap: notes.tap, dir: home.dir, fromSeq: logSeq },
      memoryMib: home.spec.memoryMib,
    })
  })
}

/** The words of the guest's `identity` verb (guest/identity.c). */
function identity(home: VmHome, notes: QemuNotes, how: { moved: boolean; renew: boolean }): string {
  const settings: unknown = how.moved ? JSON.parse(notes.guest) : {}
  const network = Object.entries(typeof settings === 'object' && settings !== null ? settings : {})
  const words: Array<readonly [string, string]> = [
    ['hostname', home.spec.hostname],
    ...network.map(([key, value]) => [key === 'gatewayMac' ? 'gateway_mac' : key, String(value)] as const),
    ...(how.moved ? [['mac', notes.mac] as const] : []),
    ...(how.renew ? [['machine_id', `${machineId(home.vmId)}\n`] as const] : []),
    ['seed', randomBytes(64).toString('hex')],
    ['now_us', String(Date.now() * 1000)],
  ]
  return words.map(([key, value]) => `${key}=${encodeWord(value)}`).join(' ')
}

/** 32 hexadecimal digits (machine-id(5)), the same for a VM whenever it starts. */
export function machineId(vmId: string): string {
  return createHash('sha256').update(`machine-id ${vmId}`).digest('hex').slice(0, 32)
}

