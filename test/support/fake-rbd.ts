/**
 * Fake `rbd` and `ceph` commands (16.2), which validate their arguments as strictly as the real ones. Files stand in
 * for images.
 */
import { mkdir, rename, rm, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { CommandError, run } from '../../src/lib/exec.ts'

interface Image {
  readonly snapshots: Map<string, { clones: number; trashed: boolean }>
  readonly meta: Map<string, string>
  parent: { readonly image: string; readonly snapshot: string } | undefined
  /** The client that holds the image's exclusive lock, such as `client.host-1`. */
  locker: string | undefined
}

const [noEntry, exists, busy, notEmpty, invalid] = [2, 17, 16, 39, 22]
const fail = (code: number, why: string): never => {
  throw new CommandError('rbd', code, `rbd: ${why}`)
}

export interface FakeCluster {
  readonly images: ReadonlyMap<string, Image>
  /** Returns a function that runs commands as the host with this name. */
  client(host: string): (program: string, args: readonly string[]) => Promise<string>
  /** Clients whose lock another client has broken. The cluster rejects their writes. */
  readonly blocklist: ReadonlySet<string>
}

export function fakeCluster(dir: string, pool = 'rbd'): FakeCluster {
  const images = new Map<string, Image>()
  /** Mapped devices, keyed by host and device: a client that has lost its lock still has its device. */
  const mapped = new Map<string, { readonly host: string; readonly image: string; readonly device: string }>()
  const blocklist = new Set<string>()
  const file = (image: string, snapshot?: string) => join(dir, snapshot === undefined ? image : `${image}@${snapshot}`)
  const copy = async (from: string, to: string) => {
    await mkdir(dir, { recursive: true })
    await run('cp', ['--sparse=always', from, to])
  }
  const split = (spec: string) => {
    const [, inPool, image = '', snapshot] = /^([^/@]+)\/([^/@]+)(?:@([^/@]+))?$/.exec(spec) ?? []
    if (inPool !== pool) fail(noEntry, `error opening pool ${spec}`)
    return { image, snapshot }
  }
  const find = (spec: string) => {
    const { image, snapshot } = split(spec)
    const found = images.get(image) ?? fail(noEntry, `error opening image ${image}: (2) No such file or directory`)
    if (snapshot !== undefined && !found.snapshots.has(snapshot)) fail(noEntry, 'no such snapshot')
    return { ...found, found, image, snapshot: snapshot ?? '' }
  }
  const add = (spec: string, parent?: Image['parent']) => {
    const { image } = split(spec)
    if (images.has(image)) fail(exists, `image ${image} already exists`)
    images.set(image, { snapshots: new Map(), meta: new Map(), parent, locker: undefined })
    return image
  }
  const snapshotOf = (parent: NonNullable<Image['parent']>) => images.get(parent.image)?.snapshots.get(parent.snapshot)
  const orphan = (image: Image) => {
    const source = image.parent && snapshotOf(image.parent)
    if (!image.parent || !source) return
    source.clones -= 1
    if (source.clones === 0 && source.trashed) images.get(image.parent.image)?.snapshots.delete(image.parent.snapshot)
    image.parent = undefined
  }
  const visible = (image: Image) => [...image.snapshots].filter(([, one]) => !one.trashed).map(([name]) => name)
  const bytes = async (path: string) => (await stat(path)).blocks * 512

  /** Returns the implementations of the commands, by name. Each is called with the remaining arguments. */
  const commands = (host: string): Readonly<Record<string, (args: readonly string[]) => Promise<unknown>>> => ({
    ls: async () => [...images.keys()],
    'snap ls': async ([spec = '']) => visible(find(spec)).map((name, n) => ({ id: n, name, size: 0 })),
    'snap create': async ([quiet, spec = '']) => {
      const { image, snapshot } = split(spec)
      const { snapshots } = find(`${pool}/${image}`)
      if (quiet !== '--no-progress' || snapshot === undefined) return fail(invalid, 'snapshot name was not specified')
      if (snapshots.has(snapshot)) return fail(exists, 'failed to create snapshot: (17) File exists')
      await copy(file(image), file(image, snapshot))
      snapshots.set(snapshot, { clones: 0, trashed: false })
      return undefined
    },
    'snap rm': async ([, spec = '']) => {
      const { image, snapshot, snapshots } = find(spec)
      const one = snapshots.get(snapshot)
      if (!one || one.trashed) return fail(noEntry, 'failed to remove snapshot: (2) No such file or directory')
      await rm(file(image, snapshot))
      if (one.clones > 0) one.trashed = true
      else snapshots.delete(snapshot)
      return undefined
    },
    'snap rollback': async ([, spec = '']) => {
      const { image, snapshot, locker } = find(spec)
      if (locker) return fail(busy, 'image is in use')
      return copy(file(image, snapshot), file(image))
    },
    clone: async ([option, format, from = '', to = '']) => {
      if (option !== '--rbd-default-clone-format' || format !== '2')
        return fail(invalid, 'parent snapshot must be protected')
      const { image, snapshot, snapshots } = find(from)
      const made = add(to, { image, snapshot })
      const source = snapshots.get(snapshot)
      if (source) source.clones += 1
      return copy(file(image, snapshot), file(made))
    },
    flatten: async ([, spec = '']) => {
      const { found } = find(spec)
      if (!found.parent) return fail(invalid, 'flatten error: image has no parent')
      orphan(found)
      return undefined
    },
    children: async ([all, spec = '']) => {
      if (all !== '--all') return fail(invalid, 'snapshot name was not specified')
      const { image } = find(spec)
      return [...images].flatMap(([name, one]) => (one.parent?.image === image ? [{ pool, image: name }] : []))
    },
    import: async ([quiet, option, features, from = '', spec = '']) => {
      if (quiet !== '--no-progress' || option !== '--image-feature' || !features?.includes('exclusive-lock'))
        return fail(invalid, 'unrecognised option')
      return copy(from, file(add(spec)))
    },
    rename: async ([from = '', to = '']) => {
      const { image, found } = find(from)
      const target = split(to).image
      if (images.has(target)) return fail(exists, 'rename error: (17) File exists')
      await rename(file(image), file(target))
      images.delete(image)
      images.set(target, found)
      return undefined
    },
    rm: async ([, spec = '']) => {
      const { image, found } = find(spec)
      if (found.snapshots.size > 0) return fail(notEmpty, 'image has snapshots - these must be deleted first')
      if (found.locker) return fail(busy, 'image still has watchers')
      orphan(found)
      images.delete(image)
      return rm(file(image))
    },
    du: async ([spec = '']) => {
      const { image, snapshots } = find(spec)
      const one = async (snapshot?: string) => ({
        name: image,
        used_size: await bytes(file(image, snapshot)),
        provisioned_size: 0,
        ...(snapshot === undefined ? {} : { snapshot }),
      })
      const kept = [...snapshots].filter(([, { trashed }]) => !trashed).map(([name]) => one(name))
      return { images: await Promise.all([...kept, one()]), total_used_size: 0, total_provisioned_size: 0 }
    },
    info: async ([spec = '']) => ({ name: spec, size: (await stat(file(find(spec).image))).size }),
    resize: async ([quiet, option, size = '', spec = '']) => {
      const { image } = find(spec)
      const [, mib] = /^(\d+)M$/.exec(size) ?? []
      if (quiet !== '--no-progress' || option !== '--size' || !mib) return fail(invalid, 'unrecognised option')
      const [now, then] = [(await stat(file(image))).size, Number(mib) * 2 ** 20]
      if (then < now) return fail(invalid, 'shrinking an image is only allowed with the --allow-shrink flag')
      if (then === now) return fail(invalid, 'new size is equal to original size')
      return truncate(file(image), then)
    },
    'image-meta get': async ([spec = '', key = '']) =>
      find(spec).meta.get(key) ?? fail(noEntry, 'failed to get metadata'),
    'image-meta set': async ([spec = '', key = '', value = '']) => void find(spec).meta.set(key, value),
    'lock ls': async ([spec = '']) => {
      const { locker } = find(spec)
      return locker ? [{ id: 'auto 1', locker, address: '10.0.0.1:0/1' }] : []
    },
    'lock rm': async ([spec = '', id, locker]) => {
      const { found } = find(spec)
      if (id !== 'auto 1' || found.locker !== locker) return fail(noEntry, 'releasing lock failed')
      blocklist.add(locker ?? '')
      found.locker = undefined
      return undefined
    },
    'device map': async ([option, spec = '']) => {
      const { image, found } = find(spec)
      if (option !== '--exclusive' && option !== '--read-only')
        return fail(invalid, 'without the lock nobody is shut out')
      if (option === '--exclusive') {
        if (found.locker) return fail(30, 'sysfs write failed: (30) Read-only file system')
        found.locker = `client.${host}`
      }
      const device = file(image)
      mapped.set(`${host} ${device}`, { host, image, device })
      return device
    },
    'device list': async () =>
      [...mapped.values()].flatMap(one =>
        one.host === host ? [{ id: '0', pool, name: one.image, device: one.device }] : [],
      ),
    'device unmap': async ([device = '']) => {
      const one = mapped.get(`${host} ${device}`)
      if (!one) return fail(invalid, 'unmap failed: (22) Invalid argument')
      mapped.delete(`${host} ${device}`)
      const image = images.get(one.image)
      if (image?.locker === `client.${host}`) image.locker = undefined
      return undefined
    },
  })

  return {
    images,
    blocklist,
    client: host => async (program, args) => {
      if (program === 'ceph') {
        if (args.join(' ') !== 'df --format json') fail(invalid, 'unknown command')
        return JSON.stringify({ pools: [{ name: pool, stats: { max_avail: 2 ** 31 } }] })
      }
      const json = args.at(-2) === '--format' && args.at(-1) === 'json'
      const words = json ? args.slice(0, -2) : args
      const all = commands(host)
      const two = words.slice(0, 2).join(' ')
      const name = all[two] ? two : (words[0] ?? '')
      const act = all[name] ?? fail(invalid, `unknown command ${words.join(' ')}`)
      const answer = await act(words.slice(name.split(' ').length))
      return json ? JSON.stringify(answer) : typeof answer === 'string' ? `${answer}\n` : ''
    },
  }
}
