import { existsSync, readdirSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { mkdir, readFile, readlink, stat, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import { isRunning } from '../../lib/process-identity.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import type { KeptDisk } from './driver.ts'
import { endProcess } from './process.ts'
import {
  bring,
  context,
  fakedHost,
  fakedVmms,
  homeIn,
  watcher,
} from '../../../test/support/agent/hypervisor-drivers.ts'

describe.each(fakedVmms)('driver $name with a fake VMM', fake => {
  // Not in `npm test`: Cloud Hypervisor covers these tests, because both drivers share most of their code, and only it
  // migrates live.
  const it = test.skipIf(!runsAll && fake.name !== 'cloud-hypervisor')

  test('a VM boots, pauses, gets a volume, is cloned, adopted and stopped', { timeout: 120_000 }, async () => {
    await using dir = await testDir()
    const { driver } = await fakedHost(fake, dir.path)
    const home = await homeIn(dir.path, 'vm_1')
    const observed = watcher()
    const { runningVm, steps } = await bring(driver, home, observed)
    try {
      expect(steps).toEqual(['disk', 'spawn', 'boot'])
      expect(runningVm.workload).toEqual({ state: 'running' })
      await until(() => observed.lines.length === 1, { what: 'the log' })
      runningVm.ack(1)
      expect(await runningVm.inspect()).toBe('running')
      for (const _twice of [1, 2]) await runningVm.pause()
      expect(await runningVm.inspect()).toBe('paused')
      for (const _twice of [1, 2]) await runningVm.resume()
      await runningVm.setBalloon?.(96)
      const stats = await runningVm.stats()
      expect(stats).toMatchObject({ ramUsedBytes: 32 * 2 ** 20, balloonActualMib: 96 })
      await runningVm.setBalloon?.(1)
      expect((await runningVm.stats()).balloonActualMib).toBe(64)
      expect(await runningVm.listening(8080)).toBe(true)
      expect(await runningVm.exec?.(['true'], 1000)).toMatchObject({ exitCode: 0 })

      const file = join(dir.path, 'volume')
      await writeFile(file, '')
      await truncate(file, 2 ** 20)
      const disk = { volumeId: '0b6f6a5e-7d1c-4f0e-9d5b-3c1f4e8a9b21', pool: 'local', sizeMib: 1 }
      for (const readOnly of [false, true]) {
        const spec = { ...disk, generation: 1, mountPoint: '/data', readOnly }
        for (const _twice of [1, 2]) await runningVm.attachDisk?.(spec, file)
        const sizeMib = readOnly ? 3 : 2
        await truncate(file, sizeMib * 2 ** 20)
        for (const _twice of [1, 2]) await runningVm.growDisk?.(spec, sizeMib)
        for (const _twice of [1, 2]) await runningVm.detachDisk?.(spec)
      }

      const saved = join(dir.path, 'saved')
      await mkdir(saved)
      const made = await runningVm.snapshot?.(saved)
      if (!made) throw new Error('no snapshot')
      expect(made.madeBy).toBe(await driver.snapshotKind?.())
      expect(await runningVm.inspect()).toBe('running')
      expect(readdirSync(saved)).toContain('scratch.img')
      // Taking a snapshot closes the guest's connections; the agent's channel to the guest reconnects.
      expect(await runningVm.listening(8080)).toBe(true)

      const from = { dir: saved, made, renew: true }
      const clone = await bring(driver, { ...(await homeIn(dir.path, 'clone')), from }, watcher())
      expect(clone.steps).toEqual(['disk', 'spawn', 'load', 'resume'])
      await clone.runningVm.stop(500)
      const other = { ...from, made: { ...made, madeBy: 'another' } }
      await expect(driver.prepare({ ...home, from: other }, context())).rejects.toMatchObject({
        code: 'snapshot_mismatch',
      })

      runningVm.detach()
      const next = watcher()
      const adopted = await driver.adopt(home, runningVm.running, 1, next)
      expect(adopted?.workload).toEqual({ state: 'running' })
      expect(await adopted?.inspect()).toBe('running')
      expect(next.lines).toEqual([])
      await adopted?.stop(500)
      expect(isRunning(runningVm.running.process)).toBe(false)
      expect(await driver.adopt(home, runningVm.running, 1, next)).toBeUndefined()
      expect([...observed.gone, ...next.gone]).toEqual([])
    } finally {
      await endProcess(runningVm.running)
    }
  })

  it('restoring a snapshot attaches the same volumes, and a fork attaches clones', {
    timeout: 120_000,
  }, async () => {
    await using dir = await testDir()
    const { driver } = await fakedHost(fake, dir.path)
    expect(driver.keepsVolumes).toBe(true)
    const volume = async (id: string, sizeMib = 1) => {
      const file = join(dir.path, id)
      await writeFile(file, '')
      await truncate(file, sizeMib * 2 ** 20)
      const disk = { volumeId: id, pool: 'local', sizeMib, generation: 1, mountPoint: `/${id}`, readOnly: false }
      return { disk, file }
    }
    const [one, two] = [await volume(randomUUID()), await volume(randomUUID())]
    const { runningVm } = await bring(driver, await homeIn(dir.path, 'vm'), watcher())
    for (const { disk, file } of [one, two]) await runningVm.attachDisk?.(disk, file)
    const saved = join(dir.path, 'saved')
    await mkdir(saved)
    await runningVm.pause()
    const made = await runningVm.snapshot?.(saved)
    if (!made) throw new Error('no snapshot')
    await runningVm.stop(500)
    const goesOn = async (vmId: string, disks: readonly KeptDisk[], renew: boolean) => {
      const order: string[] = []
      const beforeRun = async () => void order.push('stored')
      const from = { dir: saved, made, renew, disks, beforeRun }
      const { runningVm: back } = await bring(driver, { ...(await homeIn(dir.path, vmId)), from }, watcher())
      expect(order).toEqual(['stored'])
      for (const { disk, file } of disks) {
        // The restored guest already has the volume attached, so this call has no effect.
        await back.attachDisk?.(disk, file)
        await truncate(file, 2 * 2 ** 20)
        await back.growDisk?.(disk, 2)
        await back.detachDisk?.(disk)
        expect((await stat(file)).size).toBe(2 * 2 ** 20)
      }
      await back.stop(500)
    }
    const kept = ({ disk, file }: typeof one, of: string): KeptDisk => ({ disk, file, of })
    await goesOn('vm', [kept(one, one.disk.volumeId), kept(two, two.disk.volumeId)], false)
    const clone = await volume(randomUUID())
    await goesOn('fork', [kept(clone, one.disk.volumeId), kept(two, two.disk.volumeId)], true)
    // A restore without the volumes that the snapshot's guest has mounted fails.
    await expect(goesOn('bare', [], true)).rejects.toThrow(/did not start/)
  })

  it('a guest finds the additional drives of its VM by their serials', { timeout: 120_000 }, async () => {
    await using dir = await testDir()
    const { driver } = await fakedHost(fake, dir.path)
    const drives = ['source', 'output'].map(serial => ({
      serial,
      file: join(dir.path, serial),
      readOnly: serial === 'source',
    }))
    for (const { file } of drives) await writeFile(file, 'x'.repeat(512))
    expect(driver.showsDrives).toBe(true)
    const { runningVm } = await bring(driver, { ...(await homeIn(dir.path, 'builder')), drives }, watcher())
    for (const [serial, exitCode] of Object.entries({ source: 1, output: 0, absent: 2 }))
      expect(await runningVm.exec?.(['drive', serial], 1000)).toMatchObject({ exitCode })
    await runningVm.stop(500)
    await driver.release('builder', join(dir.path, 'vms/builder'))
    expect(await readFile(join(dir.path, 'output'), 'utf8')).toBe('x'.repeat(512))
  })

  it('a killed VMM is reported, and a failed boot leaves no process', { timeout: 120_000 }, async () => {
    await using dir = await testDir()
    const { driver, program } = await fakedHost(fake, dir.path)
    const observed = watcher()
    const { runningVm } = await bring(driver, await homeIn(dir.path, 'vm'), observed)
    process.kill(runningVm.running.process.pid, 'SIGKILL')
    await until(() => observed.gone.length === 1, { what: 'the end' })
    const broken = await homeIn(dir.path, 'broken')
    const prepared = await driver.prepare(broken, context())
    const other = { ...prepared, notes: { ...prepared.notes, base: join(dir.path, 'absent') } }
    await expect(driver.boot(broken, other, 1, watcher(), context())).rejects.toThrow(/did not start/)
    expect(await childrenOf(program)).toEqual([])
  })

  it('a migration never leaves two running VMs; if cancelled or refused, the VM stays on the source', {
    timeout: 120_000,
  }, async () => {
    await using here = await testDir()
    await using there = await testDir()
    const [source, target] = [await fakedHost(fake, here.path), await fakedHost(fake, there.path)]
    const home = await homeIn(here.path, 'vm')
    const observed = watcher()
    const { runningVm } = await bring(source.driver, home, observed)
    await writeFile(join(home.dir, 'scratch.img'), Buffer.alloc(700_000, 5), { flag: 'r+' })

    await expect(
      runningVm.handOver?.('tcp://127.0.0.1:1?key=' + '0'.repeat(32), () => undefined, new AbortController().signal),
    ).rejects.toThrow()
    expect(await runningVm.inspect()).toBe('running')

    const waiting = await homeIn(there.path, 'vm')
    const prepared = await target.driver.prepare(waiting, context())
    const refused = await target.driver.receive?.(waiting, prepared, 1, watcher(), context())
    await refused?.cancel()
    await expect(
      runningVm.handOver?.(refused?.uri ?? '', () => undefined, new AbortController().signal),
    ).rejects.toThrow()
    expect(await runningVm.inspect()).toBe('running')

    const arrival = await target.driver.receive?.(waiting, prepared, 2, watcher(), context())
    if (!arrival) throw new Error('no migration')
    const percents: number[] = []
    const moved = runningVm.handOver?.(
      arrival.uri,
      ({ percent }) => percents.push(percent),
      new AbortController().signal,
    )
    const arrived = await arrival.arrived
    expect((await moved)?.downtimeMs).toBeGreaterThanOrEqual(0)
    expect(await arrived.inspect()).toBe('running')
    expect(isRunning(runningVm.running.process)).toBe(false)
    expect(percents.length).toBeGreaterThan(0)
    // The migrated VM is not reported as gone, because the agent would restart it.
    expect(observed.gone).toEqual([])
    expect(existsSync(join(home.dir, 'move.left'))).toBe(true)
    expect(existsSync(join(waiting.dir, 'move.arriving'))).toBe(false)
    const sent = await readFile(join(home.dir, 'scratch.img'))
    expect(sent.equals(await readFile(join(waiting.dir, 'scratch.img')))).toBe(true)
    await arrived.stop(500)
  })
})

/** Lists the working directories of processes that are below the program's directory. */
async function childrenOf(program: string): Promise<string[]> {
  const root = `${dirname(program)}/`
  const found: string[] = []
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '')
    if (cwd.startsWith(root)) found.push(cwd)
  }
  return found
}
