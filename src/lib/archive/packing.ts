import { once } from 'node:events'
import type { Pack } from 'tar-stream'

/** Header fields that are always empty: names of users and groups, and device numbers. */
const plain = { uname: '', gname: '', devmajor: 0, devminor: 0 } as const

export type PackedType = 'file' | 'directory' | 'symlink' | 'link'

export interface PackedHeader {
  readonly name: string
  readonly type: PackedType
  readonly linkname?: string
  readonly mode: number
  readonly uid: number
  readonly gid: number
  readonly mtime: Date
  /** Length of the entry's content; 0 for everything except files. */
  readonly size: number
}

/**
 * Adds an entry to the archive. Resolves once it is written.
 * @param body the content of the entry, which must have `header.size` bytes
 */
export async function packEntry(layer: Pack, header: PackedHeader, body: AsyncIterable<Buffer>): Promise<void> {
  const done = Promise.withResolvers<void>()
  const target = layer.entry({ ...header, ...plain }, error => (error ? done.reject(error) : done.resolve()))
  if (header.type === 'file') {
    for await (const chunk of body) if (!target.write(chunk)) await once(target, 'drain')
    target.end(Buffer.alloc(0))
  }
  await done.promise
}
