import type { Database, DatabaseBranch } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { GitBranch } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice, NameField } from '../../ui/form.tsx'
import { Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon, DestroyLink } from '../../ui/row-actions.tsx'
import { Badge, isMoving, Status } from '../../ui/status.tsx'

const refresh = () => refreshAll('branches', 'databases', 'backups', 'database-snapshots', 'connection')

export function Branches({ database }: { readonly database: Database }) {
  const branches = useQuery({
    ...queries.branches(database.id),
    refetchInterval: ({ state }) => (state.data?.some(one => isMoving(one.status)) ? 1500 : 30_000),
  })
  return (
    <ListCard
      title="Branches"
      lead="Copies of the database at one point in time, for experiments or to continue from."
      actions={<Create database={database} />}
      query={branches}
      nothing={{ icon: GitBranch, title: 'No branches yet' }}
      label="Branches"
      keyOf={one => one.branch_name}
      columns={[
        {
          title: 'Name',
          cell: one => (
            <span className="flex flex-wrap items-center gap-2">
              <Mono className="font-medium">{one.branch_name}</Mono>
              {one.is_current && <Badge tone="good">Current</Badge>}
            </span>
          ),
        },
        { title: 'Status', cell: one => <Status status={one.status} /> },
        { title: 'Created', at: one => one.created_at },
      ]}
      actionsOf={one => <Actions database={database} branch={one} />}
    />
  )
}

function Create({ database }: { readonly database: Database }) {
  const snapshots = useQuery(queries.databaseSnapshots(database.id))
  return (
    <FormDialog
      title="New branch"
      submit="Create branch"
      trigger={open => (
        <AddButton
          text="New branch"
          reason={database.status === 'running' ? undefined : `The database is ${database.status}.`}
          onClick={open}
        />
      )}
      send={async values => {
        const from_snapshot = values.optional('from_snapshot')
        await api.createDatabaseBranch({
          id: database.id,
          body: { name: values.text('name'), ...(from_snapshot ? { from_snapshot } : { at: 'latest' }) },
        })
        await refresh()
      }}
      fields={
        <>
          <NameField maxLength={40} placeholder="try-migration" />
          <Choice label="From" name="from_snapshot" defaultValue="">
            <option value="">Current data</option>
            {snapshots.data
              ?.filter(one => one.status === 'ready')
              .map(one => (
                <option key={one.name} value={one.name}>
                  Backup {one.name}
                </option>
              ))}
          </Choice>
        </>
      }
    />
  )
}

function Actions({ database, branch }: { readonly database: Database; readonly branch: DatabaseBranch }) {
  const target = { id: database.id, branch_name: branch.branch_name }
  const current = branch.is_current ? 'This is the current branch.' : undefined
  const notReady = branch.status === 'ready' ? undefined : `The branch is ${branch.status}.`
  return (
    <>
      <DestroyLink
        name={branch.branch_name}
        verb="Promote"
        what="branch"
        reason={current ?? notReady}
        consequence={`New connections to ${database.name} use this branch, and open ones are closed. The current branch is kept.`}
        send={async () => {
          await api.promoteDatabaseBranch(target)
          await refresh()
        }}
      />
      <DestroyIcon
        name={branch.branch_name}
        what="branch"
        reason={current}
        consequence="Its data and backups are deleted permanently."
        send={async () => {
          await api.deleteDatabaseBranch(target)
          await refresh()
        }}
      />
    </>
  )
}
