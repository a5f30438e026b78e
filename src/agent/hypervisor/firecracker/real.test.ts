import { existsSync } from 'node:fs'
import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { describe, expect, test } from 'vitest'
import { run } from '../../../lib/exec.ts'
import { isRunning } from '../../../lib/process-identity.ts'
import { until } from '../../../../test/support/wait.ts'
import { testDir } from '../../../../test/support/agent/agent.ts'
import type { VmUser } from '../isolation.ts'
import { endProcess } from '../process.ts'
import { vmmPrograms } from '../../../../test/support/agent/hypervisor.ts'
import { tapIn } from '../../../../test/support/agent/hypervisor-tap.ts'
import { toyGuest } from '../toy-guest.ts'
import { converse, type Exchange } from '../transcript.ts'
import { place } from '../vmm/cell.ts'
import { vmmHttp } from '../vmm-http.ts'
import {
  apiSocket,
  type Cell,
  consoleTail,
  findCells,
  type FirecrackerPrograms,
  makeCell,
  spawnFirecracker,
} from './cell.ts'
import { firstLife, scenarioTap, secondLife } from './scenario.ts'

const { firecracker, jailer } = vmmPrograms
const usable = firecracker !== null && process.getuid?.() === 0 && existsSync('/dev/kvm')
const why = usable ? '' : ' (skipped: set MOTE_FIRECRACKER_BIN; needs root and /dev/kvm)'
const transcripts = new URL('./transcripts.json', import.meta.url)
const user: VmUser = { uid: 1_999_999_001, gid: 1_999_999_001 }

const Config = Type.Object({
  drives: Type.Array(Type.Object({ drive_id: Type.String(), path_on_host: Type.String() })),
})

interface Case {
  readonly name: string
  readonly programs: FirecrackerPrograms
  readonly user: VmUser | undefined
}
const plain = { firecracker: firecracker ?? '', jailer: undefined }
const cases: readonly Case[] = [
  { name: 'as root', programs: plain, user: undefined },
  ...(jailer ? [{ name: 'behind the jailer', programs: { ...plain, jailer }, user }] : []),
]

/** Tests the real Firecracker with a toy guest: all API calls that need no answer from the guest. */
describe.skipIf(!usable).each(cases)(`Firecracker $name${why}`, ({ programs, user }) => {
  test('gives the recorded answers, and a new process loads the snapshot that the first process took', async () => {
    await using dir = await testDir()
    const first = await converseWith(dir.path, 'mote-test-first', programs, user, firstLife, async cell => {
      await writeFile(join(dir.path, 'toy'), toyGuest())
      await place(cell, join(dir.path, 'toy'), 'vmlinux', 'read')
    })
    const second = await converseWith(dir.path, 'mote-test-second', programs, user, secondLife, async cell => {
      for (const name of ['memory', 'state']) await place(cell, join(dir.path, name), name, 'read')
    })
    const made = { firstLife: first, secondLife: second }
    if (process.env.UPDATE_TRANSCRIPTS) await writeFile(transcripts, `${JSON.stringify(made, null, 1)}\n`)
    expect(made).toEqual(JSON.parse(await readFile(transcripts, 'utf8')))
  })
})

async function converseWith(
  dir: string,
  id: string,
  programs: FirecrackerPrograms,
  user: VmUser | undefined,
  calls: typeof firstLife,
  fill: (cell: Cell) => Promise<void>,
): Promise<Exchange[]> {
  const cell = await makeCell({ dir, id }, programs, user)
  for (const name of ['base.img', 'scratch.img', 'config.img', 'volume.img', 'clone.img', 'init.cpio']) {
    await writeFile(join(dir, name), '')
    await truncate(join(dir, name), 2 ** 20)
    await place(cell, join(dir, name), name, 'write')
  }
  await fill(cell)
  const { identity, ended } = await spawnFirecracker(dir, cell, programs, 'own')
  try {
    const api = vmmHttp('Firecracker', cell.dir, apiSocket)
    await Promise.race([until(() => api.call('GET', '/version'), { what: 'its API' }), ended])
    expect((await findCells('nobody')).length).toBe(0)
    await using tap = await tapIn(identity.pid, scenarioTap, user?.uid ?? 0)
    const said = await converse(api, calls)
    await tap.bring()
    // The driver finds volumes by the files of the drives, also after a snapshot was loaded.
    if (calls === secondLife) {
      const { drives } = Value.Parse(Config, await api.call('GET', '/vm/config'))
      const files = Object.fromEntries(drives.map(one => [one.drive_id, one.path_on_host]))
      expect(files).toMatchObject({ rw0: 'volume.img', rw1: 'empty.img', rw2: 'clone.img' })
    }
    if (calls === firstLife) {
      await until(async () => (await consoleTail(dir)).startsWith('T'), { what: 'the guest on the console' })
      for (const name of ['memory', 'state']) await run('cp', [join(cell.dir, name), join(dir, name)])
    }
    if (user) {
      const status = await readFile(`/proc/${identity.pid}/status`, 'utf8')
      expect(status).toMatch(new RegExp(`^Uid:\\s+${user.uid}\\s+${user.uid}`, 'm'))
      expect(status).toMatch(/^Seccomp:\s+2$/m)
    }
    return said
  } finally {
    await endProcess({ process: identity })
    expect(isRunning(identity)).toBe(false)
  }
}
