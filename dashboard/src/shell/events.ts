/** Follows the live events of the project: refetches changed data, and shows notifications. */
import { useNavigate } from '@tanstack/react-router'
import { useRef } from 'react'
import { api } from '../api/client.ts'
import { useStream } from '../api/live.ts'
import { queryClient, refreshAll } from '../api/queries.ts'
import { toast } from '../ui/toast.tsx'

/** Queries to refetch after an event, by the first part of its kind, such as `deployment` of `deployment.status`. */
const touched: Readonly<Record<string, readonly string[]>> = {
  deployment: ['apps', 'app', 'active', 'deployments', 'deployment'],
  app: ['apps', 'app', 'active'],
  volume: ['volumes', 'app-volumes', 'volume-usage', 'volume-snapshots'],
  database: ['databases', 'branches', 'backups', 'database-snapshots', 'connection'],
}
/** How long to collect events before refetching once: a rollout causes many events. */
const gatherMs = 150

type WorkspaceEvent = ReturnType<typeof api.streamWorkspace> extends AsyncGenerator<infer Event> ? Event : never

export function useProjectEvents(project: string | undefined): void {
  const waiting = useRef({ names: new Set<string>(), timer: 0 })
  const navigate = useNavigate()
  const refresh = (names: readonly string[]) => {
    const { current } = waiting
    for (const name of names) current.names.add(name)
    current.timer ||= window.setTimeout(() => {
      void refreshAll(...current.names)
      current.names.clear()
      current.timer = 0
    }, gatherMs)
  }
  const onEvent = ({ event, data }: WorkspaceEvent) => {
    if (event === 'snapshot') return
    if (event === 'gap') return void queryClient.invalidateQueries()
    if (event === 'notification') {
      void queryClient.invalidateQueries({ queryKey: ['notifications'] })
      const { kind, route, title, body } = data
      refresh(touched[kind.split('.')[0] ?? ''] ?? [])
      return toast({
        tone: toneOf(kind),
        title,
        body,
        ...(route.startsWith('/') ? { open: () => void navigate({ href: route }) } : {}),
      })
    }
    refresh(touched[event.split('.')[0] ?? ''] ?? [])
  }
  useStream(project, options => api.streamWorkspace(options), onEvent)
}

export function toneOf(kind: string): 'good' | 'bad' | 'info' {
  if (/failed|trouble|revoked|limit/.test(kind)) return 'bad'
  return /live|ready/.test(kind) ? 'good' : 'info'
}
