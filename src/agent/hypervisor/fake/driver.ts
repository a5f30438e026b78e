import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { readIfExists } from '../../../lib/files.ts'
import { parseImage } from '../../image/reference.ts'
import { ImageError } from '../../base/image-error.ts'
import type { Arrival, Driver, RunningVm, Prepared, Running } from '../driver.ts'
import { StepError } from '../../base/step-error.ts'
import type { FakeHost } from './host.ts'
import { loadGuest, madeBy, markRunning, newGuest, runningGuest } from './guest.ts'
import { fakeVm } from './running-vm.ts'
import { listenForGuest } from './wire.ts'
import { fakeAddress, type FakeServer, startFakeServer } from './server.ts'

/**
 * A simulated hypervisor: implements the whole `Driver` interface in one process, for thousands of VMs, without
 * privileges. `MOTE_FAKE` in a VM's environment selects a fault: `image-missing`, `boot-fails`, `crash` (exits with
 * code 1), `unhealthy`. A running VM is a file in its directory, so that a restarted agent finds it as with a real
 * hypervisor.
 */
export function fakeDriver(host: FakeHost, dataDir: string): Driver {
  const indexes = new Map<string, number>()
  let server: Promise<FakeServer> | undefined
  const serve = () => (server ??= openServer(host, dataDir))
  return {
    name: 'fake',
    capabilities: { pause: true, snapshot: true, hotplugDisk: true, balloon: true, migrate: 'live' },
    network: 'fake',
    opensLuks: true,
    showsDrives: true,
    keepsVolumes: true,
    movesPaused: true,
    movesSnapshots: true,
    probe: async () => ({ available: true, detail: 'simulated' }),
    async prepare({ vmId, spec }, { time, signal }) {
      const { port } = await serve()
      await time('image', () => host.pass('prepare', vmId, host.timing.imageMs, signal))
      const reference = parseImage(spec.image)
      if (spec.env.MOTE_FAKE === 'image-missing')
        throw new ImageError('image_not_found', `there is no image ${spec.image}`)
      const index = takeIndex(indexes, vmId)
      return {
        imageDigest: `sha256:${createHash('sha256').update(JSON.stringify(reference)).digest('hex')}`,
        endpoint: { host: fakeAddress(index), port },
        notes: { index },
      }
    },
    async boot(home, prepared, boot, watcher, { time, signal }): Promise<RunningVm> {
      await time('boot', () => host.pass('boot', home.vmId, host.timing.bootMs, signal))
      if (home.spec.env.MOTE_FAKE === 'boot-fails')
        throw new StepError('boot_failed', 'the guest did not start: asked to fail')
      if (home.from) await host.pass('restore', home.vmId, 0, signal)
      const guest = home.from ? await loadGuest(home.from) : newGuest()
      await home.from?.beforeRun?.()
      await markRunning(home, boot, guest)
      const running = runningAs(prepared, boot)
      return fakeVm({ host, home, running, watcher, guest, origin: home.from ? 'goes-on' : 'booted' })
    },
    snapshotKind: async () => madeBy,
    async receive(home, prepared, boot, watcher): Promise<Arrival> {
      await serve()
      const listener = await listenForGuest()
      const running = runningAs(prepared, boot)
      const arrived = listener.arrived.then(async ({ guest, settle }) => {
        await markRunning(home, boot, guest)
        const runningVm = fakeVm({ host, home, running, watcher, guest, origin: 'goes-on' })
        settle()
        return runningVm
      })
      return { running, uri: listener.uri, arrived, cancel: listener.cancel }
    },
    async adopt(home, running, _fromSeq, watcher) {
      await serve()
      const guest = await runningGuest(home)
      if (!guest) return undefined
      indexes.set(home.vmId, Number(running.prepared.notes.index))
      return fakeVm({ host, home, running, watcher, guest, origin: 'goes-on' })
    },
    async release(vmId) {
      await host.pass('release', vmId, 0)
      indexes.delete(vmId)
    },
    reclaim: async () => undefined,
    close: async () => {
      await (await server)?.close()
    },
  }
}

const PortFile = Type.Object({ port: Type.Integer() })

const runningAs = (prepared: Prepared, boot: number): Running => ({
  prepared,
  process: { pid: process.pid, startTicks: 0 },
  boot,
})

/** Returns the VM's stored index, or a free one close to the number of VMs, so that addresses stay in a small range. */
function takeIndex(indexes: Map<string, number>, vmId: string): number {
  const known = indexes.get(vmId)
  if (known !== undefined) return known
  const used = new Set(indexes.values())
  let index = indexes.size
  while (used.has(index)) index += 1
  indexes.set(vmId, index)
  return index
}

/** Starts the HTTP server. After a restart of the agent it uses the same port, because endpoints must not change. */
async function openServer(host: FakeHost, dataDir: string): Promise<FakeServer> {
  const file = join(dataDir, 'fake-port.json')
  const text = await readIfExists(file)
  const stored: unknown = text === undefined ? undefined : JSON.parse(text)
  const server = await startFakeServer(host, Value.Check(PortFile, stored) ? stored.port : 0)
  await writeFile(file, JSON.stringify({ port: server.port }))
  return server
}
