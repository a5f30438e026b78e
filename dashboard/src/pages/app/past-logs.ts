/** Reads past log lines of an app as a stream: oldest first, then the stream ends. */
import type { StreamOptions } from '@mote/client'
import { api } from '../../api/client.ts'
import type { LogEvent } from '../../ui/log-view.tsx'

/** Maximum number of past log lines that the page shows; the download has all of them. */
export const mostPastLines = 5000
const mostAtOnce = 1000

export interface LogFilter {
  readonly since?: string
  readonly text?: string
  readonly replica?: string
  readonly deployment?: string
  readonly source?: 'app' | 'platform'
}

export async function* pastLines(
  app_name: string,
  filter: LogFilter,
  { signal, onState }: StreamOptions,
): AsyncGenerator<LogEvent> {
  const options = signal ? { signal } : {}
  const lines = []
  let cursor: string | undefined
  do {
    const query = { ...filter, limit: mostAtOnce, ...(cursor === undefined ? {} : { cursor }) }
    const page = await api.searchAppLogs({ app_name, query }, options)
    lines.push(...page.lines)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined && lines.length < mostPastLines)
  onState?.('open')
  for (const data of lines.reverse()) yield { event: 'log', data, id: undefined }
}
