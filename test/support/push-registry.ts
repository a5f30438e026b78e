/** The whole system with its own image registry: Debian's docker-registry, which trusts the control plane's tokens. */
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { registryTrust } from '../../src/control/registries/index.ts'
import { createVault } from '../../src/lib/vault.ts'
import { parseControlConfig } from '../../src/control/base/config.ts'
import { type Registry, startRegistry } from '../../src/programs/registry.ts'
import { freePort } from './free-port.ts'
import { testLog } from './log.ts'
import { type SystemOptions, type TestSystem, testSystem, type TestUser } from './system.ts'

export interface RegistrySystem extends AsyncDisposable {
  readonly system: TestSystem
  readonly registry: Registry
  /** Address of the registry, as `localhost:<port>`. */
  readonly host: string
}

export async function registrySystem(options: SystemOptions = {}): Promise<RegistrySystem> {
  await using starting = new AsyncDisposableStack()
  const port = await freePort()
  const system = starting.use(
    await testSystem({ ...options, config: { ...options.config, registryUrl: `http://localhost:${port}` } }),
  )
  // Allow traversal, because a registry that root starts runs as another user.
  await chmod(system.dir, 0o711)
  const { secrets } = parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8) })
  const registry = await startRegistry({
    dir: join(system.dir, 'registry'),
    host: '127.0.0.1',
    port,
    publicUrl: system.control.url,
    trust: registryTrust(createVault(secrets)),
    log: testLog(),
  })
  starting.defer(() => registry.stop())
  const running = starting.move()
  return { system, registry, host: `localhost:${port}`, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

export const accessToken = async (user: TestUser, scopes: readonly string[], more: object = {}): Promise<string> =>
  (await user.post('/v1/auth/tokens', { name: 'ci', scopes, ...more })).body.token
