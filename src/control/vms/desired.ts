import type { DiskSpec, VmObserved, VmSpec } from '../../contract/agent.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { desiredFor } from './disk-store.ts'
import { wanted } from './rules.ts'
import type { Vm } from './store.ts'
import * as store from './store.ts'

export interface OnlyHere extends Pick<VmSpec, 'incoming'> {
  /** Changes the specification of each volume for the host that the desired state is sent to. */
  readonly disk?: (disk: DiskSpec) => DiskSpec
}

export interface DesiredVms {
  /**
   * Sends the VM's full desired state to its host, and returns the host's observation. `more` adds fields that only
   * this host gets.
   */
  put(vm: Vm & { readonly hostId: string }, signal: AbortSignal, more?: OnlyHere): Promise<VmObserved>
}

const same = (disk: DiskSpec) => disk

export function desiredVms(deps: Pick<Deps, 'db' | 'bus' | 'config' | 'vault'>): DesiredVms {
  return {
    async put(vm, signal, { disk: diskHere = same, ...more } = {}) {
      const [sealed, sealedDisks, sealedFiles] =
        vm.want === 'absent'
          ? [[], [], []]
          : await Promise.all([
              store.sealedEnv(deps.db, vm.deploymentId),
              desiredFor(deps.db, vm.id),
              store.sealedFiles(deps.db, vm.deploymentId),
            ])
      const env = Object.fromEntries(sealed.map(({ name, value }) => [name, deps.vault.open('app.env', value)]))
      const disks = sealedDisks.map(({ key, cloneOf: _cloneOf, ...disk }) =>
        diskHere({ ...disk, ...(key ? { key: deps.vault.open('volume.key', key) } : {}) }),
      )
      const clones = sealedDisks.flatMap(({ volumeId, cloneOf }) => (cloneOf ? [{ volumeId, of: cloneOf }] : []))
      const files = sealedFiles.map(({ path, mode, content, variable }) => ({
        path,
        mode,
        data: content
          ? deps.vault.open('app.file', content)
          : Buffer.from(env[variable ?? ''] ?? '').toString('base64'),
      }))
      const desired = wanted(vm, deps.config, env, disks, clones)
      return agentClient(deps.bus, vm.hostId).put(
        { ...desired, spec: { ...desired.spec, ...(files.length > 0 ? { files } : {}), ...more } },
        signal,
      )
    },
  }
}
