import { resolve } from 'node:path'
import type { AgentConfig } from '../base/config.ts'
import { imageStore } from './store.ts'

/** Returns a function that finds the seed of an image, and builds the image's base if necessary. */
export function contentOfImages(
  config: AgentConfig,
  say: (line: string) => void,
  signal: AbortSignal,
): (image: string) => Promise<string | undefined> {
  if (config.hypervisor === 'fake') return async () => undefined
  const images = imageStore({ ...config, cacheDir: resolve(config.cacheDir), imageDir: resolve(config.imageDir) })
  return async image => (await images.base(image, { signal, say, time: (_name, step) => step() })).seed
}
