import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { testDir } from '../../../../test/support/agent/agent.ts'
import { whyNoLoop } from '../../../../test/support/agent/disk.ts'
import { run } from '../../../lib/exec.ts'
import { volumesDir } from './start.ts'
import { mountDrives, openVolumes, releaseVolumes } from './volumes.ts'

const why = await whyNoLoop('ext4')

/** Starts a program that has a copy of all mounts of the host, as a sandbox and `ip -n` have while they start. */
async function withCopyOfMounts(): Promise<Disposable> {
  const holder = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', 'echo has; exec sleep 60'])
  await once(holder.stdout, 'data')
  return { [Symbol.dispose]: () => void holder.kill('SIGKILL') }
}

/** Lists the files in the root of a file system image by reading the image's bytes, without mounting it. */
const namesIn = async (image: string) => (await run('debugfs', ['-R', 'ls -p /', image])).match(/[a-z-]+\.txt/g) ?? []

describe.skipIf(why !== undefined)(`volumes of a sandbox${why ? ` (skipped: ${why})` : ''}`, () => {
  test('the file of a released volume has all data, even if another mount namespace has a copy of the mount', async () => {
    await using dir = await testDir()
    const [home, volume] = [join(dir.path, 'vm'), join(dir.path, 'volume.raw')]
    await mkdir(home)
    await writeFile(volume, '')
    await truncate(volume, 32 * 2 ** 20)
    await run('mke2fs', ['-q', '-t', 'ext4', volume])
    for (const name of ['first.txt', 'second.txt']) {
      await openVolumes(home, run)
      await mountDrives(home, [{ serial: 'data', file: volume, readOnly: false, fileSystem: 'ext4' }])
      using _holder = await withCopyOfMounts()
      await writeFile(join(volumesDir(home), 'data', name), 'written')
      await releaseVolumes(home)
      await copyFile(volume, `${volume}.copy`)
      expect(await namesIn(`${volume}.copy`)).toContain(name)
    }
    // The volume was mounted again while another program still had its copy of the first mount. No data was lost.
    expect(await namesIn(`${volume}.copy`)).toEqual(['first.txt', 'second.txt'])
  })
})
