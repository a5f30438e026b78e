import { useQuery } from '@tanstack/react-query'
import { Laptop } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, queryClient } from '../../api/queries.ts'
import { leave } from '../../shell/account-menu.tsx'
import { ActionButton } from '../../ui/action.tsx'
import { Card, Mono } from '../../ui/layout.tsx'
import { Loaded } from '../../ui/states.tsx'
import { Badge } from '../../ui/status.tsx'
import { Ago } from '../../ui/time.tsx'
import { deviceOf } from './device.ts'

export function Sessions() {
  const sessions = useQuery(queries.sessions())
  return (
    <Card
      flush
      title="Sessions"
      lead="Devices where this account is signed in. If you do not recognize one, sign it out and change your password."
    >
      <Loaded query={sessions}>
        {all => (
          <ul className="divide-y divide-line">
            {all.map(session => (
              <li key={session.id} className="flex flex-wrap items-center gap-3 px-4 py-3">
                <Laptop aria-hidden="true" size={18} className="text-muted" />
                <div className="min-w-0 flex-1">
                  <p className="flex flex-wrap items-center gap-2 font-medium">
                    {deviceOf(session.user_agent)}
                    {session.current && <Badge tone="good">Current</Badge>}
                  </p>
                  <p className="text-xs text-muted">
                    <Mono>{session.ip_address ?? 'unknown address'}</Mono> · signed in <Ago at={session.created_at} />
                  </p>
                </div>
                <ActionButton
                  act={async () => {
                    if (session.current) return leave()
                    await api.revokeSession({ session_id: session.id })
                    await queryClient.invalidateQueries({ queryKey: ['sessions'] })
                  }}
                >
                  Sign out
                </ActionButton>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  )
}
