import { mkdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import * as cloudHypervisor from './cloud-hypervisor/scenario.ts'
import * as firecracker from './firecracker/scenario.ts'
import { endProcess, spawnVmm } from './process.ts'
import { toyGuest } from './toy-guest.ts'
import { converse, type Exchange } from './transcript.ts'
import { vmmHttp } from './vmm-http.ts'

/** Compares the fake VMMs, which the driver tests use, with recorded answers of the real programs. */

const cases = [
  {
    name: 'firecracker',
    args: ['--id', 'mote-fake', '--api-sock', 'api.sock'],
    base: '',
    lives: [firecracker.firstLife, firecracker.secondLife],
  },
  {
    name: 'cloud-hypervisor',
    args: ['--api-socket', 'path=api.sock'],
    base: '/api/v1',
    lives: [cloudHypervisor.firstLife, cloudHypervisor.secondLife],
  },
] as const

/**
 * The part of a recorded call that is compared. Refused calls are compared by status only, because the fakes have other
 * texts. Calls that failed for lack of KVM support on the recording host (it cannot save nested state, which Cloud
 * Hypervisor requires) are not compared.
 */
const outline = ({ method, path, body, status, answer }: Exchange) => ({
  method,
  path,
  body: body ?? null,
  status,
  answer: status < 300 ? answer : null,
})
/** True for a call that takes a snapshot successfully, and for every call that needs this snapshot. */
const needsSnapshot = (calls: ReadonlyArray<Pick<Exchange, 'path'>>, at: number) =>
  calls.some(({ path }) => path === '/vm.restore')
    ? at > 0
    : calls[at]?.path === '/vm.snapshot' && calls.slice(0, at).some(({ path }) => path === '/vm.add-disk')
const refusedByKvm = ({ answer }: Exchange) => typeof answer === 'string' && answer.includes('GetNestedState')

test.each(cases)('the fake $name gives the same API answers as the real one', { timeout: 120_000 }, async one => {
  await using dir = await testDir()
  const transcripts = await readFile(new URL(`./${one.name}/transcripts.json`, import.meta.url), 'utf8')
  const real: Exchange[][] = Object.values(JSON.parse(transcripts))
  await mkdir(join(dir.path, 'snapshot'))
  for (const name of ['base.img', 'scratch.img', 'config.img', 'volume.img', 'clone.img', 'empty.img', 'init.cpio']) {
    await writeFile(join(dir.path, name), '')
    await truncate(join(dir.path, name), 4096)
  }
  await writeFile(join(dir.path, 'vmlinux'), toyGuest())
  const child = fileURLToPath(new URL(`../../../test/support/agent/hypervisor/${one.name}-child.ts`, import.meta.url))
  for (const [index, calls] of one.lives.entries()) {
    const socket = `api${index}.sock`
    const args = [child, ...one.args.map(arg => arg.replace('api.sock', socket))]
    const { identity } = await spawnVmm({ name: 'fake', program: process.execPath, args, dir: dir.path, env: {} })
    try {
      const api = vmmHttp(one.name, dir.path, socket)
      await until(() => api.call('GET', `${one.base}/version`).catch(error => 'status' in error), { what: 'its API' })
      const at: typeof api = { call: (method, path, body) => api.call(method, `${one.base}${path}`, body) }
      const said = await converse(at, calls)
      const expected = real[index] ?? []
      const comparable = (_: Exchange, at: number) => !(real.flat().some(refusedByKvm) && needsSnapshot(calls, at))
      expect(said.filter(comparable).map(outline)).toEqual(expected.filter(comparable).map(outline))
    } finally {
      await endProcess({ process: identity })
    }
  }
})
