import type { Volume } from './store.ts'

/** Returns the audit note of a new volume, under the volume's own id. All operations that create a volume use it. */
export const creationOf = (
  volume: Pick<Volume, 'id' | 'name' | 'sizeMib' | 'poolName'>,
  origin: Readonly<Record<string, string>> = {},
) => ({
  action: 'volume.create',
  resourceType: 'volume',
  resourceId: volume.id,
  details: { name: volume.name, size_mib: volume.sizeMib, pool_name: volume.poolName, ...origin },
})
