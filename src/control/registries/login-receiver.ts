/** Gives hosts the credential that they pull the image of one of their VMs with. */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { type RegistryLoginAnswer, RegistryLoginRequest, subjects } from '../../contract/agent.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { registryOf } from '../vms/index.ts'
import * as store from './store.ts'

type LoginDeps = Pick<Deps, 'db' | 'bus' | 'vault'>

export const startRegistryLogins = (deps: LoginDeps): Promise<Subscription> =>
  deps.bus.serve(
    subjects.allRegistryLogins,
    // The bus ensures that a host publishes only under its own subject.
    (data, subject) => loginFor(deps, subject.split('.')[1] ?? '', Value.Parse(RegistryLoginRequest, data).vmId),
    { group: 'control' },
  )

/** Only for a VM of that host, and only for the registry of its image. */
async function loginFor({ db, vault }: LoginDeps, hostId: string, vmId: string): Promise<RegistryLoginAnswer> {
  const vm = isUuid(hostId) && isUuid(vmId) ? await store.vmOnHost(db, vmId, hostId) : undefined
  const host = vm && registryOf(vm.image)
  const found = host && (await store.sealedCredential(db, vm.projectId, host))
  if (!found) return { login: null }
  return { login: { host, username: found.username, password: vault.open('registry.credential', found.secret) } }
}
