import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { vsockPorts } from '../../guest/ports.ts'
import { StepError } from '../../base/step-error.ts'
import { endProcess } from '../process.ts'
import { clearMark } from '../transfer/marks.ts'
import { cellFiles, driveFile, place } from '../vmm/cell.ts'
import type { Launched } from '../vmm/launch.ts'
import type { GuestPlan, Platform, SavedGuest } from '../vmm/platform.ts'
import { vmmHttp } from '../vmm-http.ts'
import {
  apiSocket,
  cellId,
  cellName,
  consoleTail,
  driveSerial,
  findCells,
  type FirecrackerPrograms,
  makeCell,
  removeCell,
  spawnFirecracker,
  title,
  vsockSocket,
} from './cell.ts'
import { handOver } from './migrate.ts'
import { takeGuest } from './receive.ts'
import { bootCalls, consoleCall, loadCall, proofCalls, stateFiles } from './requests.ts'
import { callAll, inspect, readMemory, setPaused, setTakenMib, writeState } from './vmm.ts'
import { takeOwnName, volumeFile, volumeSlots } from './volumes.ts'

interface FirecrackerHost {
  /** The agent's directory; the ids of its Firecrackers contain its hash. */
  readonly dataDir: string
  /** Paths of Firecracker and its jailer; undefined if Firecracker is not installed. */
  readonly programs: FirecrackerPrograms | undefined
}

const variable = 'MOTE_FIRECRACKER_BIN'

/** The parts of the driver for Firecracker v1.16: KVM, its HTTP API on a unix socket, and vsock to the guest. */
export function firecrackerPlatform({ dataDir, programs }: FirecrackerHost): Platform {
  return {
    name: 'firecracker',
    title,
    migrate: 'stop-and-copy',
    overheadMib: 128,
    program: {
      file: programs?.firecracker,
      command: 'firecracker',
      from: 'github.com/firecracker-microvm/firecracker/releases',
      variable,
      tested: '1.16',
    },
    traitOf: () => (programs?.jailer ? { says: 'jailer' } : { says: 'no jailer', fix: noJailer }),
    version: () => versionOf(installed(programs).firecracker),
    async start({ dir, vmId }, user, network) {
      const found = installed(programs)
      const id = cellId(dataDir, vmId)
      // Kill a process of this VM that an earlier agent started but did not record before it died.
      for (const stray of await findCells(dataDir)) if (stray.id === id) await endProcess(stray)
      for (const mark of ['arriving', 'left'] as const) await clearMark(dir, mark)
      const cell = await makeCell({ dir, id }, found, user)
      return { cell, process: await spawnFirecracker(dir, cell, found, network) }
    },
    async owns({ vmId }, { process }) {
      const id = cellId(dataDir, vmId)
      return (await findCells(dataDir)).some(cell => cell.id === id && cell.process.pid === process.pid)
    },
    release: removeCell,
    async reclaim(keep) {
      const kept = new Set([...keep].map(vmId => cellId(dataDir, vmId)))
      for (const cell of await findCells(dataDir)) if (!kept.has(cell.id)) await endProcess(cell)
    },
    api: vmDir => vmmHttp(title, join(vmDir, cellName), apiSocket),
    greeting: '/version',
    ports: vmDir => vsockPorts(join(vmDir, cellName), vsockSocket),
    consoleTail,
    inspect,
    setPaused,
    bootGuest,
    loadGuest,
    takeGuest,
    bootProof: api => callAll(api, proofCalls()),
    control: vm => ({
      readMemory: () => readMemory(vm),
      setTakenMib: mib => setTakenMib(vm, mib),
      writeState: target => writeState(vm, target),
      memoryFile: stateFiles.memory,
      volumes: volumeSlots(vm),
      handOver: (uri, onProgress, signal, _volumes, release) => handOver(vm, uri, onProgress, signal, release),
    }),
  }
}

const noJailer = 'put jailer, of the same release, on the PATH, or set MOTE_JAILER_BIN'

async function bootGuest({ cell, api }: Launched, guest: GuestPlan): Promise<void> {
  const { base, scratch, config } = cellFiles
  const named: ReadonlyArray<readonly [string, string]> = [
    ...Object.entries({ base, scratch, config }),
    ...guest.drives.map(({ serial }, index) => [serial, driveFile(index)] as const),
  ]
  const serials: Record<string, string> = {}
  for (const [wanted, file] of named) serials[wanted] = await driveSerial(join(cell.dir, file))
  await callAll(api, bootCalls({ ...guest, serials }))
}

/** Loads a snapshot. Firecracker maps the memory file privately, so clones share unchanged pages. */
async function loadGuest({ cell, api }: Launched, { dir, tap, volumes }: SavedGuest): Promise<void> {
  for (const name of Object.values(stateFiles)) await place(cell, join(dir, name), name, 'read')
  // In the snapshot's state, each volume has the file name of the volume that the guest had mounted (`of`).
  for (const { of, file } of volumes) await place(cell, file, volumeFile(of), 'write')
  await callAll(api, [consoleCall(), loadCall(tap)])
  for (const volume of volumes) await takeOwnName(api, cell, volume)
}

function installed(programs: FirecrackerPrograms | undefined): FirecrackerPrograms {
  if (programs) return programs
  throw new StepError('unsupported_by_hypervisor', `${title} is not installed here: set ${variable}`)
}

async function versionOf(firecracker: string): Promise<string> {
  const [version, format] = await Promise.all([
    run(firecracker, ['--version']).then(text => /v([\d.]+\S*)/.exec(text)?.[1] ?? 'unknown'),
    run(firecracker, ['--snapshot-version']).then(text => /v?(\d+\.\d+\.\d+)/.exec(text)?.[1] ?? 'unknown'),
  ])
  return `${version} snapshot ${format}`
}
