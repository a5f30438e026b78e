import type { Volume } from './store.ts'

/** The audit note that every volume has under its own id, however it was made. */
export const creationOf = (
  volume: Pick<Volume, 'id' | 'name' | 'sizeMib' | 'poolName'>,
  origin: Readonly<Record<string, string>> = {},
) => ({
  action: 'volume.create',
  resourceType: 'volume',
  resourceId: volume.id,
  details: { name: volume.name, size_mib: volume.sizeMib, pool_name: volume.poolName, ...origin },
})
