import { resolve } from 'node:path'
import { abortable } from '../../lib/abortable.ts'
import type { AgentConfig } from '../base/config.ts'
import { baseOfSnapshot } from '../hypervisor/prepare.ts'
import { imageStore } from '../image/store.ts'
import type { ReceiveDeps } from './move.ts'

/**
 * Returns a function that provides the base of a snapshot that arrives from another host. If the snapshot has no image
 * reference, the base is only provided when a VM starts from the snapshot.
 */
export function basesOfSnapshots(config: AgentConfig, say: (line: string) => void): ReceiveDeps['makeBase'] {
  if (config.hypervisor === 'fake') return async () => undefined
  const images = imageStore({ ...config, cacheDir: resolve(config.cacheDir), imageDir: resolve(config.imageDir) })
  return async (made, signal) => {
    if (made.image === undefined) return
    const context = { signal, say, time: <T>(_name: string, step: () => Promise<T>) => step() }
    await abortable(baseOfSnapshot({ images }, { spec: { image: made.image } }, made, context), signal)
  }
}
