import type { LogKey } from '../../contract/agent.ts'
import { randomUUID } from 'node:crypto'
import type { Deps } from '../base/deps.ts'
import { notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { cursorOf, keyOf } from './cursor.ts'
import { logFile } from './download.ts'
import { filterOf, type LogFilter } from './filter.ts'
import { type AppLines, readLines } from './read.ts'
import type { LogPage, LogSearchQuery } from './resources.ts'
import { appLogOperations } from './schema.ts'
import * as store from './store.ts'
import { lineView, timeOf } from './view.ts'

type LogDeps = Pick<Deps, 'db' | 'bus' | 'log' | 'config' | 'clock'>

/**
 * How old a line must be before a reader in the order `oldest` gets it: a line may arrive up to this much later than
 * its timestamp.
 */
const settleMs = 1000

export const appLogFeature = (deps: LogDeps) =>
  feature(appLogOperations, {
    searchAppLogs: {
      read: async ({ project, params, query, signal }) => {
        const filter = settled(deps, query, await filterFor(deps, project.id, params.app_name, query))
        const { order = 'newest', limit = 100, cursor } = query
        const from = cursor === undefined ? undefined : keyOf(cursor)
        const found = await readLines(deps, filter, { order, limit, from }, signal)
        return pageOf(deps, filter, query, found, from)
      },
    },
    downloadAppLogs: {
      bytes: async ({ project, params, query, signal }) => {
        const filter = await filterFor(deps, project.id, params.app_name, query)
        const { format = 'text' } = query
        return {
          name: `${params.app_name}.${format === 'text' ? 'log' : 'jsonl'}`,
          version: randomUUID(),
          sizeBytes: undefined,
          body: logFile(deps, filter, format, signal),
        }
      },
    },
  })

async function filterFor(
  deps: LogDeps,
  projectId: string,
  name: string,
  query: Parameters<typeof filterOf>[2],
): Promise<LogFilter> {
  const app = await store.appOf(deps.db, projectId, name)
  if (!app) throw notFound()
  return filterOf(deps, app.id, query)
}

/**
 * Leaves out the newest lines for a reader in the order `oldest`, who continues from the last line: a line with an
 * earlier timestamp that arrives late would otherwise be missed.
 */
function settled({ clock }: LogDeps, { order, until }: LogSearchQuery, filter: LogFilter): LogFilter {
  if (order !== 'oldest' || until !== undefined) return filter
  return { ...filter, beforeUs: (clock.now().getTime() - settleMs) * 1000 }
}

function pageOf(
  { config }: LogDeps,
  { afterUs }: LogFilter,
  { order, until }: LogSearchQuery,
  { lines, reached, unavailable }: AppLines,
  from: LogKey | undefined,
): LogPage {
  const [first] = lines
  const isOpen = order === 'oldest' && until === undefined
  const next = reached ?? (isOpen ? (lines.at(-1) ?? from ?? { atUs: afterUs, vmId: '' }) : null)
  return {
    lines: lines.map(lineView),
    next_cursor: next && cursorOf(next),
    prev_cursor: first ? cursorOf(first) : null,
    searched_from: timeOf(afterUs + 1),
    retention_days: config.logDays,
    unavailable_vms: unavailable.size,
  }
}
