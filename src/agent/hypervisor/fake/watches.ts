/** Watched paths of a simulated guest. The output lines have the format of guest/watch.c. */
import { posix } from 'node:path'
import { encodeBytes } from '../../../lib/words.ts'

/** Receives each line of output, or undefined when the watched path is gone and the tool exits. */
export type ChangeTaker = (line: string | undefined) => void

interface Watch {
  readonly path: string
  readonly isRecursive: boolean
  readonly take: ChangeTaker
}

/** Creates an empty set of watches. A path is a Latin-1 string, one character per byte, because it may not be UTF-8. */
export function fakeWatches() {
  const watches = new Set<Watch>()
  /** Reports a change to the watches that cover it. @param paths the changed path; for `moved`, the old and new path */
  const report = (event: 'created' | 'removed' | 'moved', ...paths: readonly [string, string?]): void => {
    for (const watch of [...watches]) {
      tell(watch, event, paths)
      const isGone = event !== 'created' && paths[0] === watch.path
      if (!isGone) continue
      watches.delete(watch)
      watch.take(undefined)
    }
  }
  return {
    report,
    /** Reports the replacement of a file: it was written under a temporary name, and then moved to the path. */
    reportReplaced(path: string): void {
      const partial = `${path}.mote-1`
      report('created', partial)
      report('moved', partial, path)
    },
    /** Adds a watch. @returns a function that ends it */
    add(watch: Watch): () => void {
      watches.add(watch)
      return () => void watches.delete(watch)
    },
  }
}

/** Reports a change to one watch. If only one of a move's two paths is watched, it reports a creation or a removal. */
function tell({ path, isRecursive, take }: Watch, event: string, paths: readonly [string, string?]): void {
  const below = path === '/' ? '/' : `${path}/`
  const isSeen = (one: string) =>
    one === path || (isRecursive ? one.startsWith(below) : posix.dirname(one) === path && one !== path)
  const seen = paths.filter(one => one !== undefined).filter(isSeen)
  if (seen.length === 0) return
  const half = seen[0] === paths[0] ? 'removed' : 'created'
  const word = event === 'moved' && seen.length === 1 ? half : event
  take(`${word} ${seen.map(one => encodeBytes(Buffer.from(one, 'latin1'))).join(' ')}\n`)
}
