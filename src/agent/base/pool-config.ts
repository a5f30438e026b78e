/** The storage pools of a host, as configured with `MOTE_POOLS`. */
import { type Static, Type } from 'typebox'

export const PoolConfig = Type.Object({
  name: Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,31}$' }),
  kind: Type.Enum(['dir', 'dir-luks', 'lvm-thin', 'zfs', 'rbd']),
  /** A directory, `group/thin-pool`, a ZFS dataset, or Ceph's `pool` or `pool@client`; empty: default of the kind. */
  place: Type.String(),
})
export type PoolConfig = Static<typeof PoolConfig>
type Kind = PoolConfig['kind']

/** The pools of a host on which `MOTE_POOLS` is not set. */
export const defaultPools: PoolConfig[] = [{ name: 'local', kind: 'dir', place: '' }]

/** Syntax of `place` for each kind of pool: a pattern, and the form that error messages show. */
export const poolPlaces = {
  dir: { pattern: /^(|\/.*)$/, form: 'dir or dir:/path' },
  'dir-luks': { pattern: /^(|\/.*)$/, form: 'dir-luks or dir-luks:/path' },
  'lvm-thin': { pattern: /^([\w+.-]+)\/([\w+.-]+)$/, form: 'lvm-thin:group/thin-pool' },
  zfs: { pattern: /^[\w.:-]+(\/[\w.:-]+)*$/, form: 'zfs:pool/dataset' },
  rbd: { pattern: /^([\w.-]+)(?:@([\w.-]+))?$/, form: 'rbd:pool or rbd:pool@client' },
} as const satisfies Record<Kind, { readonly pattern: RegExp; readonly form: string }>

/**
 * Parses `local=dir,fast=lvm-thin:vg/pool`: name, kind and place of each pool, separated by commas.
 * @throws Error that names the invalid part
 */
export function parsePools(text: string): PoolConfig[] {
  const pools = text.split(',').flatMap(part => (part.trim() === '' ? [] : [parsePool(part.trim())]))
  const names = pools.map(pool => pool.name)
  const twice = names.find((name, n) => names.indexOf(name) !== n)
  if (twice !== undefined) throw new Error(`pool ${twice} is configured twice`)
  return pools
}

function parsePool(text: string): PoolConfig {
  const [, name, kind, place = ''] = /^([a-z0-9][a-z0-9_-]{0,31})=([a-z-]+)(?::(.+))?$/.exec(text) ?? []
  if (name && kind && isKind(kind) && poolPlaces[kind].pattern.test(place)) return { name, kind, place }
  const forms = Object.values(poolPlaces).map(({ form }) => form)
  throw new Error(`"${text}" is not name=kind:place with one of: ${forms.join('; ')}`)
}

const isKind = (text: string): text is Kind => Object.hasOwn(poolPlaces, text)
