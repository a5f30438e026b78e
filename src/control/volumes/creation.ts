import type { Volume } from './store.ts'

/** The audit note of a new volume, under the volume's own id, for every way to create one. */
export const creationOf = (
  volume: Pick<Volume, 'id' | 'name' | 'sizeMib' | 'poolName'>,
  origin: Readonly<Record<string, string>> = {},
) => ({
  action: 'volume.create',
  resourceType: 'volume',
  resourceId: volume.id,
  details: { name: volume.name, size_mib: volume.sizeMib, pool_name: volume.poolName, ...origin },
})
