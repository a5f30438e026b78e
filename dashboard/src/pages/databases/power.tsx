import type { Database } from '@mote/client'
import { Pause, Play } from 'lucide-react'
import { api } from '../../api/client.ts'
import { refreshAll } from '../../api/queries.ts'
import { ActionButton } from '../../ui/action.tsx'

/** The button that suspends the database, which keeps its disks, or resumes it. */
export function Power({ database }: { readonly database: Database }) {
  const isSuspended = database.status === 'suspended'
  const reason = isSuspended || database.status === 'running' ? undefined : `The database is ${database.status}.`
  return (
    <ActionButton
      look={isSuspended ? 'primary' : 'plain'}
      reason={reason}
      act={async () => {
        await api.updateDatabase({ id: database.id, body: { suspended: !isSuspended } })
        await refreshAll('databases', 'branches')
      }}
    >
      {isSuspended ? <Play aria-hidden="true" size={14} /> : <Pause aria-hidden="true" size={14} />}
      {isSuspended ? 'Resume' : 'Suspend'}
    </ActionButton>
  )
}
