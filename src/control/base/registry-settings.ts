/** Settings of image registries. */
import { imagePath, setting, url } from './setting.ts'

export const registrySettings = {
  registry: setting(
    'MOTE_REGISTRY',
    '',
    imagePath,
    'registry for built images, for example registry.example:5000/apps; required with several hosts',
  ),
  registryUrl: setting(
    'MOTE_REGISTRY_URL',
    '',
    url,
    "address of the installation's own registry, as clients and hosts reach it; http://localhost:<port> with MOTE_REGISTRY_PORT",
  ),
} as const
