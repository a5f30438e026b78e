/**
 * A template is the stored state of a guest in the middle of its boot, from which all VMs of the same kind start: init
 * has mounted the root and opened its ports, but has read nothing that belongs to one VM only.
 * docs/decisions/0036-vm-templates.md
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { configBytes } from '../../guest/config-disk.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import type { RunningVm } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { beginning } from '../identity.ts'
import { runDir } from '../isolation.ts'
import { parseWorkload } from '../running-vm.ts'
import { readNotes } from '../prepare.ts'
import { configFile, copySparse, copyWritable, scratchFile } from '../snapshot-files.ts'
import { qemuArgs } from './argv.ts'
import { enableMemoryStats } from './balloon.ts'
import { copyMemory, memoryOf } from './guest-memory.ts'
import { type Launch, type Launched, launch } from './launch.ts'
import { qemuVm } from './running-vm.ts'
import { assertPrivate, privateMemoryEnv } from './private-memory.ts'
import { snapshotFiles } from './snapshot.ts'
import { loadState, saveState } from './state-file.ts'
import { templateKey } from './templates.ts'

export interface TemplateInput {
  readonly plan: Omit<Launch, 'scratch' | 'start' | 'fromSeq'>
  readonly kernel: GuestKernel
  readonly kernelArgs: string
  readonly madeBy: string
}

/**
 * Hashes everything that influences the guest until its template is taken: files, QEMU's arguments and the VM's size.
 * VMs with the same key differ only in values that each start replaces. Files are identified by inode, size and
 * modification time, because a rebuilt file may have the same path.
 */
export async function keyOf({ plan, kernel, kernelArgs, madeBy }: TemplateInput): Promise<string> {
  const { home, prepared, accel, isolation } = plan
  const { base, baseType, devices, netdev } = readNotes(prepared)
  const { vcpus, memoryMib, diskMib } = home.spec
  const start = { kind: 'boot', kernel: '', initrd: '', kernelArgs } as const
  const alike = {
    base: '',
    scratch: scratchFile,
    config: configFile,
    drives: [],
    mac: '',
    memoryNeedsName: plan.program.memoryNeedsName,
    diskLimits: isolation.diskLimits,
  }
  const files = await Promise.all([kernel.kernel, kernel.initrd, base].map(identityOf))
  return templateKey({
    madeBy,
    files,
    baseType,
    diskMib,
    configBytes,
    apart: isolation.netless !== undefined,
    // The features of the guest's network card depend on its backend on the host.
    args: qemuArgs({ ...alike, accel, devices, start, vcpus, memoryMib, netdev: netdev.split(',')[0] ?? '' }),
  })
}

async function identityOf(file: string): Promise<string> {
  const { ino, size, mtimeMs } = await stat(file)
  return `${file} ${ino} ${size} ${mtimeMs}`
}

/** Kernel arguments that make the guest's init wait at the point in the boot at which the template is taken. */
export const templateArgs = (baseType: string) => ` mote.template=${baseType}`

/** Writes a template: pauses the guest while its memory, devices and scratch disk are saved. */
export async function takeTemplate(
  { qmp, running }: Launched,
  { home, isolation }: Pick<Launch, 'home' | 'isolation'>,
  target: string,
): Promise<void> {
  const memory = await memoryOf(running.process.pid)
  if (!memory) throw new Error("the guest's memory cannot be read")
  const state = join(target, snapshotFiles.state)
  await qmp.execute('stop')
  try {
    await Promise.all([
      saveState(qmp, join(home.dir, runDir), state, true, isolation.userOf(home.vmId)),
      copyMemory(memory, join(target, snapshotFiles.memory)),
      copySparse(join(home.dir, scratchFile), join(target, scratchFile)),
    ])
  } finally {
    await qmp.execute('cont')
  }
}

/** Starts a VM from the template, and then sends the guest its identity. */
export async function startFromTemplate(
  { cacheDir }: { readonly cacheDir: string },
  plan: Omit<Launch, 'scratch' | 'start' | 'env' | 'fromSeq'>,
  template: string,
  madeBy: string,
  context: PrepareContext,
): Promise<RunningVm> {
  const { home, prepared, isolation } = plan
  const memoryFile = join(template, snapshotFiles.memory)
  const scratch = () => copyWritable(join(template, scratchFile), join(home.dir, scratchFile), plan.launcher.run)
  const env = await privateMemoryEnv(cacheDir, memoryFile)
  const start = { kind: 'incoming', after: 'stay-paused', memoryFile } as const
  return launch({ ...plan, scratch, start, env, fromSeq: 0 }, context, async launched => {
    const { qmp, running, unlessEnded } = launched
    await assertPrivate(running.process.pid, memoryFile)
    const state = join(template, snapshotFiles.state)
    await context.time('load', () => unlessEnded(loadState(qmp, join(home.dir, runDir), state, true)))
    return context.time('boot', async () => {
      await qmp.execute('cont')
      await unlessEnded(launched.guest.request(`begin ${beginning(readNotes(prepared).mac)}`, 0))
      return bootedVm(launched, { home, isolation, watcher: plan.watcher }, madeBy)
    })
  })
}

/** Waits until a guest with an identity has started its workload, and returns the running VM. */
export async function bootedVm(
  { qmp, guest, console, running, cgroupCpuSeconds, unlessEnded }: Launched,
  { home, isolation, watcher }: Pick<Launch, 'home' | 'isolation' | 'watcher'>,
  madeBy: string,
): Promise<RunningVm> {
  const workload = parseWorkload(await unlessEnded(guest.ready))
  await enableMemoryStats(qmp, home)
  const { tap } = readNotes(running.prepared)
  return qemuVm({
    running,
    qmp,
    guest,
    console,
    watcher,
    workload,
    madeBy,
    tap,
    dir: home.dir,
    fromSeq: 0,
    memoryMib: home.spec.memoryMib,
    cgroupCpuSeconds,
    isolation,
    vmId: home.vmId,
  })
}
