import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeScratch } from '../../disk/scratch.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import type { Arrival } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { enableMemoryStats } from './balloon.ts'
import type { QemuDeps } from './driver.ts'
import { identity, identityMs } from '../identity.ts'
import { type Launch, type Launched, launch } from './launch.ts'
import { parseWorkload } from '../running-vm.ts'
import { endProcess } from '../process.ts'
import { qemuVm } from './running-vm.ts'
import { runDir } from '../isolation.ts'
import { diskExport, diskSocket, formatArrival, memorySocket, migrationCapabilities } from './migrate.ts'
import { volumesGreeting } from './migrate-volumes.ts'
import { takeGuestWithVolumes } from './receive-volumes.ts'
import { clearMark, setMark } from '../transfer/marks.ts'
import { listenForVm, parseArrival as parseWire, type Wire } from '../transfer/wire.ts'
import { relayIn } from './relay.ts'
import { readNotes } from '../prepare.ts'
import { asObject } from './qmp.ts'
import { setCapabilities } from './state-file.ts'

const identityTries = 8

/** Starts a QEMU that receives memory and disk of a VM from another host, and starts the guest once QEMU has both. */
export async function receiveVm(
  deps: Pick<QemuDeps, 'cacheDir' | 'migrationHost'>,
  plan: Omit<Launch, 'scratch' | 'start' | 'env' | 'fromSeq'>,
  madeBy: string,
  context: PrepareContext,
): Promise<Arrival> {
  const { home } = plan
  const scratch = () => makeScratch(deps.cacheDir, `${home.dir}/scratch.img`, home.spec.diskMib, plan.launcher.run)
  const volumes = home.arriving
  const start = { kind: 'incoming', after: volumes ? 'stay-paused' : 'run' } as const
  // A VM with volumes must not start on this host until the source has given it up.
  if (volumes) await setMark(home.dir, 'arriving')
  else await clearMark(home.dir, 'arriving')
  // An earlier migration may have moved the VM from this host to another one.
  await clearMark(home.dir, 'left')
  return launch({ ...plan, scratch, start, fromSeq: 0 }, context, async launched => {
    const { qmp, running } = launched
    const host = deps.migrationHost()
    await setCapabilities(qmp, migrationCapabilities)
    const address = { type: 'unix', data: { path: `${runDir}/${diskSocket}` } }
    await qmp.execute('nbd-server-start', { addr: address })
    await qmp.execute('nbd-server-add', { device: 'scratch', name: diskExport, writable: true })
    if (!volumes) await qmp.execute('migrate-incoming', { uri: `unix:${runDir}/${memorySocket}` })
    using opened = new DisposableStack()
    const open = <T extends { close(): void }>(one: T) => opened.adopt(one, ({ close }) => close())
    const listener = volumes ? open(await listenForVm(host, volumesGreeting)) : undefined
    const memory = open(await relayIn(host, join(home.dir, runDir), memorySocket))
    const disk = open(await relayIn(host, join(home.dir, runDir), diskSocket))
    // No step after this one can fail. The relays are closed when the migration succeeds or fails.
    const relays = opened.move()
    let [hasRun, wire]: [boolean, Wire | undefined] = [false, undefined]
    const closeRelays = () => {
      relays.dispose()
      wire?.close()
    }
    const closeAll = () => {
      closeRelays()
      launched.qmp.close()
      launched.guest.close()
      launched.console.close()
    }
    const brought = async () => {
      if (!volumes || !listener) return
      wire = await listener.wire
      const user = plan.isolation.userOf(home.vmId)
      await takeGuestWithVolumes(wire, {
        launched,
        dir: home.dir,
        user,
        diskLimits: plan.isolation.diskLimits,
        volumes,
        onGo: runs => (hasRun = runs),
      })
    }
    const arrived = brought().then(() => untilArrived(launched, plan, madeBy))
    arrived.then(closeRelays, closeRelays)
    return {
      running,
      uri: formatArrival({
        host,
        port: memory.port,
        diskPort: disk.port,
        devices: readNotes(plan.prepared).devices,
        ...(listener ? { volumes: parseWire(listener.uri) } : {}),
      }),
      arrived,
      hasRun: () => hasRun,
      detach: closeAll,
      cancel: async () => {
        closeAll()
        await endProcess(running)
      },
    }
  })
}

async function untilArrived(
  { qmp, guest, console, running, cgroupCpuSeconds }: Launched,
  { home, watcher, prepared, isolation }: Pick<Launch, 'home' | 'watcher' | 'prepared' | 'isolation'>,
  madeBy: string,
) {
  while (asObject(await qmp.execute('query-status')).running !== true) {
    const { status, 'error-desc': reason } = asObject(await qmp.execute('query-migrate'))
    if (status === 'failed')
      throw new Error(
        `receiving the memory and device state of the VM from the source host failed: ${String(reason ?? 'no reason given')}`,
      )
    // A VM that was paused on the source arrives paused. Its guest must run to receive its identity; the agent pauses
    // it again afterwards.
    if (status === 'completed') await qmp.execute('cont')
    await sleep(10)
  }
  if (!home.arriving) await qmp.execute('nbd-server-stop')
  const workload = parseWorkload(await guest.ready)
  await enableMemoryStats(qmp, home)
  const notes = readNotes(prepared)
  const { tap } = notes
  // With taps, a guest has other addresses on each host, so it needs a new identity. With user networking the addresses
  // are the same everywhere.
  if (tap !== null) await sendIdentity(guest, () => identity(home, notes, { moved: true, renew: false }))
  return qemuVm({
    running,
    qmp,
    guest,
    console,
    watcher,
    tap,
    workload,
    madeBy,
    dir: home.dir,
    fromSeq: 0,
    memoryMib: home.spec.memoryMib,
    cgroupCpuSeconds,
    isolation,
    vmId: home.vmId,
  })
}

/**
 * Sends the guest its identity, with retries: only this host has the guest now, so a slow response must not fail the
 * migration.
 */
async function sendIdentity(guest: GuestChannel, words: () => string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return void (await guest.request(`identity ${words()}`, identityMs))
    } catch (error) {
      if (tries === identityTries) throw error
    }
  }
}
