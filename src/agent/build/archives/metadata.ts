/**
 * Caches metadata about toolchain archives from their publishers for an hour. Without internet access, older metadata
 * is used.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { inThread } from '../../../lib/archive/thread.ts'
import { hours, seconds } from '../../../lib/duration.ts'
import { privateDir, readIfExists, writeFileAtomic } from '../../../lib/files.ts'
import { archivesIn } from './store.ts'

export interface Metadata {
  /**
   * Returns the cached result of `load` if it is less than an hour old, otherwise calls `load`. If `load` fails,
   * returns the older result.
   * @throws the error of `load`, if nothing is cached
   */
  get<T extends TSchema>(name: string, schema: T, load: () => Promise<Static<T>>): Promise<Static<T>>
}

/** The text of a publisher's response, not parsed yet. */
export type MetadataText =
  | { readonly kind: 'npm'; readonly text: string; readonly registry: string }
  | { readonly kind: 'rust'; readonly text: string }

const readMs = seconds(20)

/**
 * Parses metadata in a worker thread.
 * @throws Error if the metadata does not match the schema, or parsing takes too long or too much memory
 */
export const readMetadata = (text: MetadataText): Promise<unknown> =>
  inThread(new URL('./metadata-thread.ts', import.meta.url), text, {
    signal: new AbortController().signal,
    timeoutMs: readMs,
  })

const Stored = Type.Object({ atMs: Type.Number(), value: Type.Unknown() })
const freshMs = hours(1)

export function metadataIn(cacheDir: string, nowMs: () => number): Metadata {
  const root = archivesIn(cacheDir)
  return {
    async get(name, schema, load) {
      const file = join(root, `about-${createHash('sha256').update(name).digest('hex').slice(0, 32)}.json`)
      const text = await readIfExists(file)
      const stored: unknown = text === undefined ? undefined : JSON.parse(text)
      const known = Value.Check(Stored, stored) ? stored : undefined
      const value = known?.value
      const isKnown = Value.Check(schema, value)
      const ageMs = nowMs() - (known?.atMs ?? 0)
      if (isKnown && ageMs >= 0 && ageMs < freshMs) return value
      try {
        const loaded = await load()
        await privateDir(root)
        await writeFileAtomic(file, JSON.stringify({ atMs: nowMs(), value: loaded }))
        return loaded
      } catch (error) {
        if (isKnown) return value
        throw error
      }
    },
  }
}
