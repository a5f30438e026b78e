/** Resolves `volumes_from`, with which a service gets the mounts of another one. */
import { faultOf, type Field, member, oneOrMany, type Reader, text, unsupported } from './reader.ts'
import type { Mapping, Tree } from './tree.ts'

/** Returns the services, each with the additional mounts of the services in its `volumes_from`. */
export function withVolumesFrom(services: ReadonlyMap<string, Mapping>, reader: Reader): Map<string, Mapping> {
  return new Map(
    [...services].map(([name, tree]) => {
      const field: Field = { reader, tree, path: `services.${name}` }
      const added = oneOrMany(member(field, 'volumes_from')).flatMap(one => mountsFrom(one, services))
      if (added.length === 0) return [name, tree] as const
      const own = tree.entries.get('volumes')
      const items = [...(own?.kind === 'list' ? own.items : []), ...added]
      const volumes: Tree = { kind: 'list', at: own?.at ?? tree.at, items }
      return [name, { ...tree, entries: new Map(tree.entries).set('volumes', volumes) }] as const
    }),
  )
}

/** Returns the mounts of another service, for an entry `service` or `service:ro` of `volumes_from`. */
function mountsFrom(field: Field, services: ReadonlyMap<string, Mapping>): readonly Tree[] {
  const [name = '', mode] = (text(field) ?? '').split(':')
  if (name === 'container') unsupported(field, 'is not supported: containers outside of the file are unknown here')
  if (name === 'container' || name === '') return []
  const other = services.get(name)
  if (!other) faultOf(field, `names the service ${name}, which does not exist`)
  const volumes = other?.entries.get('volumes')
  const items = volumes?.kind === 'list' ? volumes.items : []
  return mode === 'ro' ? items.map(readOnly) : items
}

function readOnly(mount: Tree): Tree {
  if (mount.kind === 'map')
    return {
      ...mount,
      entries: new Map(mount.entries).set('read_only', { kind: 'scalar', at: mount.at, value: true, text: 'true' }),
    }
  if (mount.kind !== 'scalar' || mount.text.split(':').length > 2) return mount
  return { ...mount, value: `${mount.text}:ro`, text: `${mount.text}:ro` }
}
