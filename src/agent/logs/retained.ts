/**
 * Log files of removed VMs: `<data>/logs/<app>/<vm>/<first us>-<last us>.log`. Files are deleted, oldest first, when
 * they exceed the maximum age, or the maximum disk space of their app or of this host.
 */
import { mkdir, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isVmId } from '../base/vm-id.ts'
import { boundsOf, openIfExists } from './segment.ts'
import type { Segment } from './search.ts'

export interface RetentionLimits {
  readonly maxAgeMs: number
  /** Maximum disk space for the logs of removed VMs: of one app, and of all apps on this host. */
  readonly appBytes: number
  readonly hostBytes: number
}

export interface RetainedLogs {
  /** Moves the log files of a removed VM to the directory of retained logs. */
  take(vm: { readonly vmId: string; readonly appId: string }, paths: readonly string[]): Promise<void>
  /** Returns the retained log files of a VM, oldest first. */
  segments(vmId: string): readonly Segment[]
  forget(appIds: readonly string[]): Promise<void>
  /** Deletes files that exceed a limit. Returns how many. */
  prune(): Promise<number>
}

interface Piece extends Segment {
  readonly vmId: string
  readonly appId: string
  readonly bytes: number
}

/** The least disk space that a file counts for: one block. */
const leastBytes = 4096
const fileName = /^(\d{1,16})-(\d{1,16})\.log$/

export async function openRetainedLogs(
  root: string,
  limits: RetentionLimits,
  nowMs: () => number,
): Promise<RetainedLogs> {
  await mkdir(root, { recursive: true, mode: 0o700 })
  /** The retained files, sorted by the time of their last line, oldest first. */
  let pieces = await load(root)
  const ofVm = new Map<string, Piece[]>()
  for (const piece of pieces) index(piece)

  function index(piece: Piece): void {
    const known = ofVm.get(piece.vmId)
    if (known) known.push(piece)
    else ofVm.set(piece.vmId, [piece])
  }
  async function remove(gone: ReadonlySet<Piece>): Promise<void> {
    pieces = pieces.filter(piece => !gone.has(piece))
    for (const { vmId } of gone) {
      const left = ofVm.get(vmId)?.filter(piece => !gone.has(piece)) ?? []
      if (left.length > 0) ofVm.set(vmId, left)
      else ofVm.delete(vmId)
    }
    for (const { path, vmId, appId } of gone) {
      await rm(path, { force: true })
      for (const dir of [join(root, appId, vmId), join(root, appId)]) await rmdir(dir).catch(() => undefined)
    }
  }
  async function prune(): Promise<number> {
    const gone = new Set(excess(pieces, limits, nowMs()))
    if (gone.size > 0) await remove(gone)
    return gone.size
  }
  return {
    async take({ vmId, appId }, paths) {
      if (!isVmId(appId)) return
      const dir = join(root, appId, vmId)
      for (const path of paths) {
        const found = await measure(path)
        if (!found) continue
        await mkdir(dir, { recursive: true, mode: 0o700 })
        const { firstUs, lastUs, bytes } = found
        const piece = { vmId, appId, firstUs, lastUs, bytes, path: join(dir, `${firstUs}-${lastUs}.log`) }
        // Added before the file is moved, so that a search finds the lines in either the old or the new place.
        pieces.push(piece)
        index(piece)
        await rename(path, piece.path)
      }
      await prune()
    },
    segments: vmId => ofVm.get(vmId) ?? [],
    async forget(appIds) {
      const apps = new Set(appIds)
      await remove(new Set(pieces.filter(({ appId }) => apps.has(appId))))
    },
    prune,
  }
}

/**
 * Returns the files that exceed a limit, newest first.
 * @param pieces sorted by the time of the last line, oldest first
 */
export function excess<P extends { readonly appId: string; readonly bytes: number; readonly lastUs: number }>(
  pieces: readonly P[],
  { maxAgeMs, appBytes, hostBytes }: RetentionLimits,
  nowMs: number,
): P[] {
  const ofApp = new Map<string, number>()
  let all = 0
  return pieces.toReversed().filter(({ appId, bytes, lastUs }) => {
    const used = (ofApp.get(appId) ?? 0) + Math.max(bytes, leastBytes)
    if (lastUs / 1000 < nowMs - maxAgeMs || used > appBytes || all + Math.max(bytes, leastBytes) > hostBytes)
      return true
    ofApp.set(appId, used)
    all += Math.max(bytes, leastBytes)
    return false
  })
}

async function measure(path: string): Promise<{ firstUs: number; lastUs: number; bytes: number } | undefined> {
  await using file = await openIfExists(path)
  const bounds = file && (await boundsOf(file))
  return bounds && { ...bounds, bytes: (await file.stat()).size }
}

async function load(root: string): Promise<Piece[]> {
  const pieces: Piece[] = []
  for (const appId of await readdir(root))
    for (const vmId of await readdir(join(root, appId)))
      for (const name of await readdir(join(root, appId, vmId))) {
        const match = fileName.exec(name)
        if (!match) continue
        const path = join(root, appId, vmId, name)
        const [, firstUs, lastUs] = match
        pieces.push({
          vmId,
          appId,
          path,
          bytes: (await stat(path)).size,
          firstUs: Number(firstUs),
          lastUs: Number(lastUs),
        })
      }
  return pieces.sort((a, b) => a.lastUs - b.lastUs)
}
