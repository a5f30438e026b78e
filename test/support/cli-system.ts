/** A test system with a signed-in user and that user's CLI, for a whole test file. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import type { AgentConfig } from '../../src/agent/base/config.ts'
import { type Cli, cli } from './cli.ts'
import { type TestSystem, type TestUser, testSystem } from './system.ts'

export interface CliSystem {
  readonly system: TestSystem
  readonly user: TestUser
  /** Home directory of the CLI. */
  readonly home: string
  readonly mote: Cli
}

/**
 * Starts the system. To be called at the top level of a test file; it is stopped after the file's tests.
 * @param fake durations of the one simulated host; by default, two hosts with default durations
 */
export async function cliSystem(fake?: AgentConfig['fake']): Promise<CliSystem> {
  await using undo = new AsyncDisposableStack()
  const system = undo.use(await testSystem({ agents: fake ? 0 : 2 }))
  if (fake) await system.addAgent({ fake })
  const user = await system.user()
  const home = await mkdtemp(join(tmpdir(), 'mote-cli-'))
  undo.defer(() => rm(home, { recursive: true, force: true }))
  const made = undo.move()
  afterAll(() => made.disposeAsync())
  return {
    system,
    user,
    home,
    mote: cli({ home, env: { MOTE_URL: system.control.url, MOTE_TOKEN: user.token ?? '' } }),
  }
}
