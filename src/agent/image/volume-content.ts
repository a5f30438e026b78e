import { resolve } from 'node:path'
import type { AgentConfig } from '../base/config.ts'
import { imageStore } from './store.ts'

/** Where the content for volumes of an image is on this host; the image's base is made when it is not there. */
export function contentOfImages(
  config: AgentConfig,
  say: (line: string) => void,
  signal: AbortSignal,
): (image: string) => Promise<string | undefined> {
  if (config.hypervisor === 'fake') return async () => undefined
  const images = imageStore({ ...config, cacheDir: resolve(config.cacheDir), imageDir: resolve(config.imageDir) })
  return async image => (await images.base(image, { signal, say, time: (_name, step) => step() })).seed
}
