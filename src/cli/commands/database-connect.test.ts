/**
 * `mote db connect` accepts only a bastion whose host key the API has returned. Uses a real OpenSSH client and a real
 * bastion.
 */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { createMemoryBus } from '../../bus/memory.ts'
import { type BastionKey, gatewaySubjects, type TunnelLogin } from '../../contract/gateway.ts'
import { type Bastion, startBastion } from '../../gateway/bastion/bastion.ts'
import { hostKeyOptions } from '../../control/bastion/index.ts'
import { CommandError, run } from '../../lib/exec.ts'
import { hostKeyArgs, knownHosts } from './database-connect.ts'

describe.skipIf(!existsSync('/usr/bin/ssh'))('the host key of the bastion (needs ssh)', () => {
  const bus = createMemoryBus()
  const reported: string[] = []
  const logins: TunnelLogin[] = []
  let bastion: Bastion
  let dir: string
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'mote-connect-'))
    await bus.serve(gatewaySubjects.tunnelKey, data => {
      reported.push((data as BastionKey).publicKey)
      return {}
    })
    await bus.serve(gatewaySubjects.tunnelLogin, data => {
      logins.push(data as TunnelLogin)
      return { grant: null }
    })
    bastion = await startBastion(
      { host: '127.0.0.1', port: 0, hostKeyFile: join(dir, 'host') },
      { bus, log: pino({ level: 'silent' }) },
    )
    await until(() => reported.length > 0, { what: 'the bastion has reported its key' })
  })
  afterAll(async () => {
    await bastion.stop()
    await bus.close()
    await rm(dir, { recursive: true })
  })

  /** Returns the last message of ssh, which fails because it has no valid password. */
  async function attempt(keys: readonly string[]): Promise<string> {
    await using known = await knownHosts(keys)
    const args = ['-F', '/dev/null', '-N', ...hostKeyArgs(known.file), '-o', 'PreferredAuthentications=password']
    const env = { ...process.env, SSH_ASKPASS: '/bin/echo', SSH_ASKPASS_REQUIRE: 'force' }
    const failed = await run(
      'ssh',
      [...args, '-o', 'NumberOfPasswordPrompts=1', '-p', String(bastion.port), 'x@127.0.0.1'],
      {
        signal: AbortSignal.timeout(20_000),
        env,
      },
    ).catch((error: unknown) => error)
    return failed instanceof CommandError ? failed.stderr : String(failed)
  }

  it('is the key that the gateway reports to the control plane', async () => {
    const line = await run('ssh-keygen', ['-y', '-f', join(dir, 'host')])
    expect(line.startsWith(`${reported[0]} `)).toBe(true)
  })

  it('is accepted if it is among the keys from the API', async () => {
    const [key = ''] = reported
    for (const keys of [[key], [await otherKey(), key]]) {
      const before = logins.length
      expect(await attempt(keys)).toContain('Permission denied')
      expect(logins.length).toBeGreaterThan(before)
    }
  })

  it('is refused before any password is sent if the API returns another key', async () => {
    const before = logins.length
    expect(await attempt([await otherKey()])).toContain('Host key verification failed')
    expect(logins.length).toBe(before)
  })

  it('is also pinned in the ssh command that users paste', async () => {
    const [key = ''] = reported
    const paste = (keys: readonly string[]) => {
      const command = `ssh -F /dev/null -N ${hostKeyOptions(keys)} -o NumberOfPasswordPrompts=1 -p ${bastion.port} x@127.0.0.1`
      const env = { ...process.env, SSH_ASKPASS: '/bin/echo', SSH_ASKPASS_REQUIRE: 'force' }
      const ended = run('sh', ['-c', command], { signal: AbortSignal.timeout(20_000), env })
      return ended.catch((error: unknown) => (error instanceof CommandError ? error.stderr : String(error)))
    }
    expect(await paste([key])).toContain('Permission denied')
    expect(await paste([await otherKey()])).toContain('Host key verification failed')
  })

  async function otherKey(): Promise<string> {
    const file = join(dir, `other-${Math.random()}`)
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file])
    return (await readFile(`${file}.pub`, 'utf8')).split(' ').slice(0, 2).join(' ')
  }
})
