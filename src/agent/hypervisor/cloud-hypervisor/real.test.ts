import { existsSync } from 'node:fs'
import { chown, mkdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { run } from '../../../lib/exec.ts'
import { until } from '../../../../test/support/wait.ts'
import { testDir } from '../../../../test/support/agent/agent.ts'
import { endProcess, type VmmProcess } from '../process.ts'
import { vmmPrograms } from '../../../../test/support/agent/hypervisor.ts'
import { tapIn } from '../../../../test/support/agent/hypervisor-tap.ts'
import { toyGuest } from '../toy-guest.ts'
import { converse, type Exchange } from '../transcript.ts'
import { cellFiles, place, type VmmCell } from '../vmm/cell.ts'
import { cellUser, cloudHypervisorApi, makeCell, spawnCloudHypervisor } from './cell.ts'
import { consoles } from './consoles.ts'
import { firstLife, scenarioTap, secondLife } from './scenario.ts'

const program = vmmPrograms.cloudHypervisor
const usable = program !== null && process.getuid?.() === 0 && existsSync('/dev/kvm')
const why = usable ? '' : ' (skipped: set MOTE_CLOUD_HYPERVISOR_BIN; needs root and /dev/kvm)'
const transcripts = new URL('./transcripts.json', import.meta.url)
const user = usable ? cellUser({ uid: 1_999_999_002, gid: 1_999_999_002 }) : undefined
const cases = [{ name: 'as root', user: undefined }, ...(user ? [{ name: 'as a user of its own', user }] : [])]

/** Tests the real Cloud Hypervisor with a toy guest: all API calls that need no answer from the guest. */
describe.skipIf(!usable).each(cases)(`Cloud Hypervisor $name${why}`, ({ user }) => {
  test('gives the recorded answers, and a new process loads the snapshot that the first process took', async () => {
    await using dir = await testDir()
    const saved = join(dir.path, 'run', 'snapshot')
    let first: Exchange[] = []
    {
      await using vmm = await start(dir.path, user)
      await using tap = await tapIn(vmm.process.identity.pid, scenarioTap, user?.uid ?? 0)
      await mkdir(saved)
      if (user) await chown(saved, user.uid, user.gid)
      const console = consoles()
      console.follow(dir.path, vmm.process.identity)
      first = await converse(cloudHypervisorApi(dir.path), firstLife)
      await tap.bring()
      await until(() => console.tail(dir.path).startsWith('T'), { what: 'the guest on the console' })
      console.forget(dir.path)
      await run('cp', ['-a', saved, join(dir.path, 'kept')])
    }
    await using vmm = await start(dir.path, user)
    await using _tap = await tapIn(vmm.process.identity.pid, scenarioTap, user?.uid ?? 0)
    await run('cp', ['-a', join(dir.path, 'kept'), saved])
    const second = await converse(cloudHypervisorApi(dir.path), secondLife)
    const made = { first, second }
    if (process.env.UPDATE_TRANSCRIPTS) await writeFile(transcripts, `${JSON.stringify(made, null, 1)}\n`)
    expect(made).toEqual(JSON.parse(await readFile(transcripts, 'utf8')))
  })
})

/** Starts the program with all files of the scenario in its jail directory (`VmmCell`). */
async function start(
  dir: string,
  user: VmmCell['user'],
): Promise<{ cell: VmmCell; process: VmmProcess } & AsyncDisposable> {
  const cell = await makeCell(dir, user)
  for (const name of [cellFiles.base, cellFiles.scratch, cellFiles.config, 'volume.img', cellFiles.initrd]) {
    await writeFile(join(dir, name), '')
    await truncate(join(dir, name), 2 ** 20)
    await place(cell, join(dir, name), name, 'write')
  }
  await writeFile(join(dir, 'toy'), toyGuest())
  await place(cell, join(dir, 'toy'), cellFiles.kernel, 'read')
  const process = await spawnCloudHypervisor(dir, cell, program ?? '', 'own')
  const api = cloudHypervisorApi(dir)
  await Promise.race([until(() => api.call('GET', '/vmm.ping'), { what: 'its API' }), process.ended])
  return { cell, process, [Symbol.asyncDispose]: () => endProcess({ process: process.identity }) }
}
