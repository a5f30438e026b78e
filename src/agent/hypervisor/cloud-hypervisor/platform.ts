import { chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { vsockPorts } from '../../guest/ports.ts'
import { StepError } from '../../base/step-error.ts'
import { runDir } from '../isolation.ts'
import { endProcess } from '../process.ts'
import { clearMark } from '../transfer/marks.ts'
import { place } from '../vmm/cell.ts'
import type { Launched } from '../vmm/launch.ts'
import type { GuestPlan, Platform, SavedGuest } from '../vmm/platform.ts'
import {
  cellUser,
  cloudHypervisorApi,
  makeCell,
  processesIn,
  spawnCloudHypervisor,
  title,
  vsockSocket,
} from './cell.ts'
import { proofConfig, settingsHere, stateFiles, vmConfig } from './config.ts'
import { consoles } from './consoles.ts'
import { handOver } from './migrate.ts'
import { takeGuest } from './receive.ts'
import { inspect, readMemory, setPaused, setTakenMib, writeState } from './vmm.ts'
import { renamed, volumeNames, volumeSlots } from './volumes.ts'

interface CloudHypervisorHost {
  /** Path of Cloud Hypervisor; undefined if it is not installed. */
  readonly program: string | undefined
}

const variable = 'MOTE_CLOUD_HYPERVISOR_BIN'

/** The parts of the driver for Cloud Hypervisor v53: KVM, its HTTP API on a unix socket, and vsock to the guest. */
export function cloudHypervisorPlatform({ program }: CloudHypervisorHost): Platform {
  const console = consoles()
  return {
    name: 'cloud-hypervisor',
    title,
    migrate: 'live',
    overheadMib: 256,
    program: {
      file: program,
      command: 'cloud-hypervisor',
      from: 'github.com/cloud-hypervisor/cloud-hypervisor/releases',
      variable,
      tested: '53',
    },
    traitOf: user => (cellUser(user) ? { says: 'a user for each VM' } : { says: 'as root', fix: openDevices }),
    version: () => versionOf(installed(program)),
    async start({ dir }, user, network) {
      for (const process of await processesIn(dir)) await endProcess({ process })
      for (const mark of ['arriving', 'left'] as const) await clearMark(dir, mark)
      const cell = await makeCell(dir, cellUser(user))
      const process = await spawnCloudHypervisor(dir, cell, installed(program), network)
      console.follow(dir, process.identity)
      return { cell, process }
    },
    owns: async ({ dir }, { process }) => (await processesIn(dir)).some(({ pid }) => pid === process.pid),
    release: () => Promise.resolve(),
    reclaim: () => Promise.resolve(),
    api: cloudHypervisorApi,
    greeting: '/vmm.ping',
    ports: vmDir => vsockPorts(join(vmDir, runDir), vsockSocket),
    consoleTail: vmDir => Promise.resolve(console.tail(vmDir)),
    forget: console.forget,
    inspect,
    setPaused,
    bootGuest,
    loadGuest,
    takeGuest,
    async bootProof(api) {
      await api.call('PUT', '/vm.create', proofConfig)
      await api.call('PUT', '/vm.boot')
    },
    control(given) {
      const vm = { ...given, user: cellUser(given.user) }
      return {
        readMemory: () => readMemory(vm),
        setTakenMib: mib => setTakenMib(vm, mib),
        writeState: target => writeState(vm, target),
        memoryFile: stateFiles.memory,
        volumes: volumeSlots(vm),
        handOver: (uri, onProgress, signal, _volumes, release) => handOver(vm, uri, onProgress, signal, release),
      }
    },
  }
}

const openDevices =
  'let a group other than root open /dev/kvm (chgrp kvm /dev/kvm; chmod 660), so that VMs need not be root'

/**
 * Boots the guest, and keeps it paused until its tap device is in the host's network namespace: Cloud Hypervisor's
 * network device fails permanently when a packet cannot be written (`NetQueuePairError::WriteTap`). In the short time
 * between `vm.boot` and `vm.pause`, the guest's kernel cannot have sent a packet yet.
 */
async function bootGuest({ api, tap }: Launched, guest: GuestPlan): Promise<void> {
  await api.call('PUT', '/vm.create', vmConfig(guest))
  await api.call('PUT', '/vm.boot')
  if (!tap.apart) return
  await api.call('PUT', '/vm.pause')
  await tap.bring()
  await api.call('PUT', '/vm.resume')
}

/**
 * Directory of the snapshot to load, relative to the VMM's working directory, because the VMM's user cannot access
 * absolute paths in the VM's directory.
 */
const fromDir = 'from'

/**
 * Loads a snapshot, and puts this VM's tap into its settings. Cloud Hypervisor copies the memory, so clones share none.
 */
async function loadGuest({ cell, api, tap: way }: Launched, { dir: from, tap, volumes }: SavedGuest): Promise<void> {
  const dir = join(cell.dir, fromDir)
  await mkdir(dir, { mode: 0o700 })
  const { memory, settings, state } = stateFiles
  await place(cell, join(from, memory), join(fromDir, memory), 'read')
  for (const { disk, file } of volumes) await place(cell, file, volumeNames(disk.volumeId).device, 'write')
  const textOf = async (name: string) => renamed(await readFile(join(from, name), 'utf8'), volumes)
  await writeFile(join(dir, settings), settingsHere(await textOf(settings), tap), { mode: 0o600 })
  await writeFile(join(dir, state), await textOf(state), { mode: 0o600 })
  const { user } = cell
  if (user) for (const path of [dir, join(dir, settings), join(dir, state)]) await chown(path, user.uid, user.gid)
  await api.call('PUT', '/vm.restore', { source_url: `file://${fromDir}` })
  await rm(dir, { recursive: true, force: true })
  await way.bring()
}

function installed(program: string | undefined): string {
  if (program) return program
  throw new StepError('unsupported_by_hypervisor', `${title} is not installed here: set ${variable}`)
}

async function versionOf(program: string): Promise<string> {
  return /v([\d.]+\S*)/.exec(await run(program, ['--version']))?.[1] ?? 'unknown'
}
