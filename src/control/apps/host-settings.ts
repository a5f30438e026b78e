/** The host labels that an app requires and prefers: their format in the API, and their validation. */
import { faultOfLabels, type Labels, mostLabels } from '../../lib/labels.ts'
import { invalidField } from '../http/errors.ts'
import { maybe, resource, stringMap } from '../http/types.ts'
import type { HostSettings } from '../scheduler/wishes.ts'

const required = {
  maxProperties: mostLabels,
  description: 'Labels that a host must have.',
  examples: [{ region: 'eu' }],
}
const preferred = {
  maxProperties: mostLabels,
  description:
    'Labels that a host should have: of the hosts with capacity, those with more of these labels are preferred.',
  examples: [{ zone: 'eu-1' }],
}

export const AppHosts = resource(
  'AppHosts',
  { require: stringMap(required), prefer: stringMap(preferred) },
  {
    description:
      'Which hosts may run the VMs of an app, by host label. `GET /v1/host-labels` lists the available labels.',
  },
)

export const AppHostsRequest = resource('AppHostsRequest', {
  require: maybe(stringMap(required)),
  prefer: maybe(stringMap(preferred)),
})

export interface HostsRequest {
  readonly require?: Labels | null
  readonly prefer?: Labels | null
}

/** Returns the host labels that the request requires and prefers; null if it names none. @throws ApiError 400 */
export function hostsOf({ require, prefer }: HostsRequest): HostSettings | null {
  const settings = { require: require ?? {}, prefer: prefer ?? {} }
  for (const [field, labels] of Object.entries(settings)) {
    const fault = faultOfLabels(labels)
    if (fault !== undefined) throw invalidField(`hosts/${field}`, fault)
  }
  return Object.keys(settings.require).length + Object.keys(settings.prefer).length === 0 ? null : settings
}
