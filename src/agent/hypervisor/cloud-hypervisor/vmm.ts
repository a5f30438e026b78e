import { mkdir, rename, rm } from 'node:fs/promises'
import { chown, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run } from '../../../lib/exec.ts'
import { encodeWord } from '../../guest/words.ts'
import type { Machine, SnapshotMade } from '../driver.ts'
import { unbind } from '../bind.ts'
import { runDir, showFile } from '../isolation.ts'
import type { VmContext } from '../launch.ts'
import { answerMs, balloonTarget, type GuestMemory } from '../machine.ts'
import { configFile, copySparse, scratchFile, snapshotNotes } from '../snapshot-files.ts'
import { untilThere } from '../until-there.ts'
import { asObject, type VmmHttp } from '../vmm-http.ts'
import { diskConfig, files } from './config.ts'

/** @throws Error when it is neither: such a process never became a VM. */
export async function inspect(api: VmmHttp): Promise<'running' | 'paused'> {
  const { state } = asObject(await api.call('GET', '/vm.info'))
  if (state === 'Running') return 'running'
  if (state === 'Paused') return 'paused'
  throw new Error(`Cloud Hypervisor says that its VM is "${String(state)}"`)
}

/** To pause what is paused is an error there, so it is asked first. */
export async function setPaused(api: VmmHttp, paused: boolean): Promise<void> {
  if ((await inspect(api)) === (paused ? 'paused' : 'running')) return
  await api.call('PUT', paused ? '/vm.pause' : '/vm.resume')
}

/** Cloud Hypervisor counts what the balloon takes, we count what the guest keeps. */
export async function setBalloon({ api, memoryMib }: VmContext, targetMib: number | null): Promise<void> {
  await api.call('PUT', '/vm.resize', { desired_balloon: (memoryMib - balloonTarget(targetMib, memoryMib)) * 2 ** 20 })
}

/** Its balloon has no statistics: the guest is asked. One that cannot answer now is as it was: unknown. */
export async function readMemory({ api, guest, memoryMib }: VmContext): Promise<GuestMemory> {
  const [info, text] = await Promise.all([
    api.call('GET', '/vm.info'),
    guest.request('memory', answerMs).catch(() => '0 0'),
  ])
  const [total = 0, available = 0] = text.split(' ').map(Number)
  const ramUsedBytes = total > 0 && available > 0 && available <= total ? total - available : 0
  const actual = Number(asObject(info).memory_actual_size ?? memoryMib * 2 ** 20)
  return { ramUsedBytes, balloonActualMib: Math.round(actual / 2 ** 20) }
}

/** Long enough for a large guest's memory on a slow disk. */
const snapshotMs = 600_000

/**
 * Everything at one instant: the guest stands still while Cloud Hypervisor writes memory and devices into its cell, and
 * the scratch disk is copied.
 */
export async function takeSnapshot(vm: VmContext, target: string, logSeq: number): Promise<SnapshotMade> {
  const { api, running, vmDir, madeBy } = vm
  const wasRunning = (await inspect(api)) === 'running'
  const startedMs = performance.now()
  if (wasRunning) await api.call('PUT', '/vm.pause')
  try {
    await writeState(vm, target)
    await copySparse(join(vmDir, scratchFile), join(target, scratchFile))
  } finally {
    if (wasRunning) await api.call('PUT', '/vm.resume')
  }
  const pauseMs = wasRunning ? Math.round(performance.now() - startedMs) : 0
  await copySparse(join(vmDir, configFile), join(target, configFile))
  await run('fallocate', ['--dig-holes', join(target, files.memory)]).catch(() => undefined)
  const { imageDigest, notes } = running.prepared
  return { madeBy, imageDigest, pauseMs, notes: snapshotNotes(notes, logSeq) }
}

/** Relative to its working directory: the way to the VM's directory is closed to its user. */
const newDir = 'new'

/** Memory, devices and settings of the paused guest, as files of the agent's own. */
async function writeState({ api, vmDir, user }: VmContext, target: string): Promise<void> {
  const dir = join(vmDir, runDir, newDir)
  await rm(dir, { recursive: true, force: true })
  await mkdir(dir, { mode: 0o700 })
  if (user) await chown(dir, user.uid, user.gid)
  await api.call('PUT', '/vm.snapshot', { destination_url: `file://${newDir}` }, { timeoutMs: snapshotMs })
  for (const name of await readdir(dir)) {
    await rename(join(dir, name), join(target, name))
    if (user) await chown(join(target, name), 0, 0)
  }
  await rm(dir, { recursive: true, force: true })
}

type Volumes = Required<Pick<Machine, 'attachDisk' | 'detachDisk'>>

/** How long the guest may take to let go of a disk. */
const ejectMs = 10_000

/** Volumes of one running machine: PCI disks that come and go. */
export function volumes({ api, guest, vmDir, user }: VmContext): Volumes {
  return {
    async attachDisk({ volumeId, readOnly, mountPoint }, file) {
      const { device, serial } = namesOf(volumeId)
      if (!(await hasDevice(api, device))) {
        await showFile(file, join(vmDir, runDir, device), user, 'write')
        await api.call('PUT', '/vm.add-disk', diskConfig({ id: device, serial, path: device, readOnly }))
      }
      const line = `mount ${serial} ${readOnly ? 'ro' : 'rw'} ${encodeWord(mountPoint)}`
      await untilThere(() => guest.request(line, answerMs))
    },
    async detachDisk({ volumeId, mountPoint }) {
      const { device, serial } = namesOf(volumeId)
      if (await hasDevice(api, device)) {
        await guest.request(`unmount ${serial} ${encodeWord(mountPoint)}`, answerMs)
        await api.call('PUT', '/vm.remove-device', { id: device })
        await untilEjected(api, device)
      }
      await unbind(join(vmDir, runDir, device))
    },
  }
}

async function untilEjected(api: VmmHttp, device: string): Promise<void> {
  const deadline = performance.now() + ejectMs
  while (await hasDevice(api, device)) {
    if (performance.now() > deadline) throw new Error('the guest does not let go of the disk')
    await sleep(10)
  }
}

async function hasDevice(api: VmmHttp, id: string): Promise<boolean> {
  return id in asObject(asObject(await api.call('GET', '/vm.info')).device_tree)
}

/** A virtio disk's serial has 20 bytes: the end of a UUID, which is random, is enough. */
function namesOf(volumeId: string): { device: string; serial: string } {
  const serial = volumeId.replaceAll('-', '').slice(-20)
  return { device: `volume-${serial}`, serial }
}
