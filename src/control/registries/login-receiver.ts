/** Gives hosts the credentials with which they pull the images of their VMs. */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { type RegistryLoginAnswer, RegistryLoginRequest, subjects } from '../../contract/agent.ts'
import { minutes } from '../../lib/duration.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { builtPath, registryOf, repositoryOf } from '../vms/index.ts'
import { ownRegistry } from './own.ts'
import * as store from './store.ts'
import { ticketUser, writeTicket } from './ticket.ts'

type LoginDeps = Pick<Deps, 'db' | 'bus' | 'vault' | 'config' | 'clock'>

/** Lifetime of a ticket (the host's password for one repository): longer than a pull or push takes. */
const ticketMs = minutes(10)

export const startRegistryLogins = (deps: LoginDeps): Promise<Subscription> =>
  deps.bus.serve(
    subjects.allRegistryLogins,
    // The host id in the subject of the bus message is reliable, because the bus lets a host publish only under its own
    // subject.
    (data, subject) => loginFor(deps, subject.split('.')[1] ?? '', Value.Parse(RegistryLoginRequest, data)),
    { group: 'control' },
  )

/**
 * Returns the credential with which a host pulls an image for a VM or build that it runs. For a VM, the image is that
 * of its deployment; for a build, the host names the image, because a Dockerfile may use any. For the installation's
 * own registry the credential is a ticket. It allows the host to pull images of the project and images built for its
 * apps, and, for a build, to push the image of its app.
 */
async function loginFor(
  deps: LoginDeps,
  hostId: string,
  { vmId, image: named }: RegistryLoginRequest,
): Promise<RegistryLoginAnswer> {
  const { clock, config, db, vault } = deps
  const find = named === undefined ? store.vmOnHost : store.buildOnHost
  const user = isUuid(hostId) && isUuid(vmId) ? await find(db, vmId, hostId) : undefined
  const image = named ?? user?.image ?? ''
  const host = user && registryOf(image)
  if (!user || host === undefined) return { login: null }
  const own = ownRegistry(config)
  if (own && host === own.host) {
    const repository = repositoryOf(image)
    const built = repository.startsWith(`${builtPath}/`) ? repository.slice(builtPath.length + 1) : undefined
    const isTheirs =
      built === undefined
        ? repository.startsWith(`${user.slug}/`)
        : isUuid(built) && (await store.isAppOf(db, built, user.projectId))
    if (isTheirs) {
      const untilMs = clock.now().getTime() + ticketMs
      const push = built !== undefined && named !== undefined && built === user.appId
      const password = writeTicket(vault, { repository, push, untilMs })
      return { login: { host, username: ticketUser, password, own: { plainHttp: own.plainHttp } } }
    }
  }
  const found = await store.sealedCredential(db, user.projectId, host)
  if (!found) return { login: null }
  return { login: { host, username: found.username, password: vault.open('registry.credential', found.secret) } }
}
