import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { testDir } from '../../../../test/support/agent/agent.ts'
import { noIsolation } from '../isolation.ts'
import { fakedVmms } from '../../../../test/support/agent/hypervisor-drivers.ts'
import { type Probe, probeVmm } from './probe.ts'

type Change = Partial<{ mode: 'tap' | 'user'; file: string | undefined; kernel: () => Promise<never> }>

/** Tests all checks of a probe up to the test boot, which needs the real program and KVM (contract.test.ts). */
test.each(fakedVmms)('$name: a probe reports missing requirements and what to do next', async ({ name, platform }) => {
  await using dir = await testDir()
  const says = async (version: string) => {
    const file = join(dir.path, version)
    await writeFile(file, `#!/bin/sh\necho '${name} v${version}'\n`)
    await chmod(file, 0o755)
    return file
  }
  const kernel = () => Promise.reject(new Error('as far as the proof'))
  const probe = ({ mode = 'tap', file }: Change): Promise<Probe> => {
    const one = platform(dir.path, file ?? '')
    const deps = { cacheDir: dir.path, network: { mode }, kernel, userOf: noIsolation.userOf }
    return probeVmm(deps, one, AbortSignal.timeout(10_000))
  }
  const { tested, variable } = platform(dir.path, '').program
  expect(await probe({})).toMatchObject({ available: false, detail: 'not installed' })
  expect((await probe({})).fix).toContain(`v${tested} of github.com/`)
  expect((await probe({})).fix).toContain(variable)
  const present = await says(`${tested}.1`)
  expect(await probe({ file: present, mode: 'user' })).toMatchObject({ detail: 'needs taps', available: false })
  expect((await probe({ file: await says('0.9') })).detail).toMatch(/v0\.9 is older than v/)
  expect((await probe({ file: join(dir.path, 'gone') })).detail).toMatch(/gone does not exist/)
  for (const version of [`${tested}.1`, '999.0'])
    expect((await probe({ file: await says(version) })).detail).toContain('as far as the proof')
})
