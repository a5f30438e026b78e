/** Gives hosts the credential that they pull the image of one of their VMs with. */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { type RegistryLoginAnswer, RegistryLoginRequest, subjects } from '../../contract/agent.ts'
import { minutes } from '../../lib/duration.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { registryOf, repositoryOf } from '../vms/index.ts'
import { ownRegistry } from './own.ts'
import * as store from './store.ts'
import { ticketUser, writeTicket } from './ticket.ts'

type LoginDeps = Pick<Deps, 'db' | 'bus' | 'vault' | 'config' | 'clock'>

/** As long as a pull may take. */
const ticketMs = minutes(10)

export const startRegistryLogins = (deps: LoginDeps): Promise<Subscription> =>
  deps.bus.serve(
    subjects.allRegistryLogins,
    // The bus ensures that a host publishes only under its own subject.
    (data, subject) => loginFor(deps, subject.split('.')[1] ?? '', Value.Parse(RegistryLoginRequest, data).vmId),
    { group: 'control' },
  )

/**
 * Only for a VM of that host, and only for the registry of its image. Images of the project in the installation's own
 * registry need no stored credential.
 */
async function loginFor(deps: LoginDeps, hostId: string, vmId: string): Promise<RegistryLoginAnswer> {
  const { clock, config, db, vault } = deps
  const vm = isUuid(hostId) && isUuid(vmId) ? await store.vmOnHost(db, vmId, hostId) : undefined
  const host = vm && registryOf(vm.image)
  if (!vm || host === undefined) return { login: null }
  const repository = host === ownRegistry(config)?.host ? repositoryOf(vm.image) : undefined
  if (repository?.startsWith(`${vm.slug}/`)) {
    const untilMs = clock.now().getTime() + ticketMs
    return { login: { host, username: ticketUser, password: writeTicket(vault, { repository, push: false, untilMs }) } }
  }
  const found = await store.sealedCredential(db, vm.projectId, host)
  if (!found) return { login: null }
  return { login: { host, username: found.username, password: vault.open('registry.credential', found.secret) } }
}
