/** Image registries in the settings of the programs. */
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import type { AgentConfig } from '../agent/base/config.ts'
import type { ControlConfig } from '../control/base/config.ts'
import { createVault } from '../lib/vault.ts'
import { namingPorts } from './start-failure.ts'
import { portOf, type ProgramSettings, programSettings } from './settings.ts'

export const ownRegistryUrl = ({ registryPort }: ProgramSettings) =>
  `http://localhost:${portOf(programSettings.registryPort, registryPort)}`

export async function openRegistry(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  { publicUrl, secrets }: ControlConfig,
  log: Logger,
): Promise<void> {
  const { startRegistry } = await import('./registry.ts')
  const { registryTrust } = await import('../control/registries/index.ts')
  const port = portOf(programSettings.registryPort, settings.registryPort)
  const registry = await namingPorts([[port, programSettings.registryPort]], () =>
    startRegistry({
      dir: join(resolve(settings.data), 'registry'),
      host: settings.listen,
      port,
      publicUrl,
      trust: registryTrust(createVault(secrets)),
      log,
    }),
  )
  scope.defer(() => registry.stop())
}

/** The registries that the operator named, and the one of this installation. */
export function registriesOf(settings: ProgramSettings): AgentConfig['registries'] {
  const own = settings.registryPort === '' ? '' : ownRegistryUrl(settings)
  const texts = `${settings.privateRegistries},${own}`.split(',').map(text => text.trim())
  return texts.filter(Boolean).map(text => {
    const [address = '', projects] = text.replace(/^https?:\/\//, '').split('#')
    const [host = '', login] = address.split('@').reverse()
    const [username, password] = (login ?? '').split(':').map(decodeURIComponent)
    return {
      host,
      ...(text.startsWith('http://') ? { plainHttp: true } : {}),
      ...(username ? { username, password: password ?? '' } : {}),
      ...(projects ? { projects: projects.split('+') } : {}),
    }
  })
}
