/** Parses the settings for image registries, and starts the installation's own registry. */
import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import type { AgentConfig } from '../agent/base/config.ts'
import type { ControlConfig } from '../control/base/config.ts'
import { type Db, statement } from '../db/db.ts'
import { readIfExists, writeFileAtomic } from '../lib/files.ts'
import { findProgram } from '../lib/programs.ts'
import { createVault } from '../lib/vault.ts'
import { namingPorts, startFailure } from './start-failure.ts'
import { portOf, type ProgramSettings, programSettings } from './settings.ts'

/** Port of the default registry. It differs from 5000, on which the service in Debian's package listens. */
const defaultPort = 7050

/** The installation's own registry, for images that users push, as its control plane uses it. */
export interface OpenedRegistry {
  /** Address of the registry; empty if there is none. */
  readonly url: string
  /** Reason why the default registry was not started, in one sentence; absent if it was started or not needed. */
  readonly note?: string
}

interface Parts {
  readonly config: ControlConfig
  readonly db: Db
  readonly log: Logger
}

/**
 * Starts the registry for which the settings ask. The default is one on port 7050, unless the operator names another
 * registry or another control plane has started one. If the default cannot be started, the program starts without it.
 * @throws Error if the settings name a port and the registry does not start
 */
export async function openRegistry(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  parts: Parts,
  freePort = defaultPort,
): Promise<OpenedRegistry> {
  const { registry, registryUrl } = parts.config
  const { registryPort } = settings
  if (registryPort === '') return { url: registryUrl }
  if (registryPort !== 'auto') {
    const port = portOf(programSettings.registryPort, registryPort)
    await start(scope, settings, parts, port)
    return { url: registryUrl || `http://localhost:${port}` }
  }
  if (registryUrl !== '' || registry !== '') return { url: registryUrl }
  const opened = await openDefault(scope, settings, parts, freePort)
  if (opened.note) parts.log.warn(opened.note)
  return opened
}

async function openDefault(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  parts: Parts,
  port: number,
): Promise<OpenedRegistry> {
  const { db } = parts
  if ((await findProgram('docker-registry')) === undefined)
    return {
      url: '',
      note: 'There is no registry for images: install it (apt-get install docker-registry) and restart Mote.',
    }
  try {
    const id = await registryId(settings)
    const known = await db.maybe(ownRegistry, [])
    if (known && known.id !== id) return { url: known.url }
    await using starting = new AsyncDisposableStack()
    await start(starting, settings, parts, port)
    const { id: owner, url } = await db.one(claimRegistry, [id, `http://${hostIn(settings, parts.config)}:${port}`])
    if (owner === id) scope.use(starting.move())
    return { url }
  } catch (cause) {
    return { url: '', note: `There is no registry for images. ${startFailure(cause)}` }
  }
}

const ownRegistry = statement<{ id: string; url: string }>('programs.ownRegistry', `SELECT id, url FROM own_registry`)
// The first control plane claims the registry. Later, only the control plane with the same id may change the address.
const claimRegistry = statement<{ id: string; url: string }>(
  'programs.claimRegistry',
  `INSERT INTO own_registry (id, url) VALUES ($1, $2)
   ON CONFLICT (one) DO UPDATE SET url = CASE WHEN own_registry.id = $1 THEN $2 ELSE own_registry.url END
   RETURNING id, url`,
)

const dirOf = (settings: ProgramSettings) => join(resolve(settings.data), 'registry')

/** Returns the id of this control plane's registry directory, and creates it at the first call. */
async function registryId(settings: ProgramSettings): Promise<string> {
  const file = join(dirOf(settings), 'id')
  const known = await readIfExists(file)
  if (known !== undefined) return known.trim()
  const id = randomUUID()
  await mkdir(dirOf(settings), { recursive: true, mode: 0o711 })
  await writeFileAtomic(file, `${id}\n`)
  return id
}

/**
 * Returns the hostname by which clients and hosts reach the registry: that of the API, unless both only listen on
 * loopback.
 */
function hostIn({ listen }: ProgramSettings, { publicUrl }: ControlConfig): string {
  const isLocal = listen === 'localhost' || listen === '::1' || listen.startsWith('127.')
  return isLocal ? 'localhost' : new URL(publicUrl).hostname
}

async function start(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  { config: { publicUrl, secrets }, log }: Parts,
  port: number,
): Promise<void> {
  const { startRegistry } = await import('./registry.ts')
  const { registryTrust } = await import('../control/registries/index.ts')
  const registry = await namingPorts([[port, programSettings.registryPort]], () =>
    startRegistry({
      dir: dirOf(settings),
      host: settings.listen,
      port,
      publicUrl,
      trust: registryTrust(createVault(secrets)),
      log,
    }),
  )
  scope.defer(() => registry.stop())
}

/** Returns the registries in the settings. @param own address of the installation's registry; empty: none */
export function registriesOf(settings: ProgramSettings, own = ''): AgentConfig['registries'] {
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
