import type { Database, DatabaseBranch } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { GitBranch, Plus, Trash2 } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field } from '../../ui/form.tsx'
import { Card, Mono } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Badge, isMoving, Status } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'

const refresh = () => refreshAll('branches', 'databases', 'backups', 'database-snapshots', 'connection')

export function Branches({ database }: { readonly database: Database }) {
  const branches = useQuery({
    ...queries.branches(database.id),
    refetchInterval: ({ state }) => (state.data?.some(one => isMoving(one.status)) ? 1500 : 30_000),
  })
  return (
    <Card
      flush
      title="Branches"
      lead="Copies of the database at one moment, to try things on or to go on from."
      actions={<Create database={database} />}
    >
      <Loaded query={branches}>
        {all =>
          all.length === 0 ? (
            <Empty icon={GitBranch} title="No branches yet" />
          ) : (
            <Table
              label="Branches"
              rows={all}
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
                {
                  title: 'Created',
                  wideOnly: true,
                  cell: one => (
                    <span className="text-muted">
                      <Ago at={one.created_at} />
                    </span>
                  ),
                },
                { title: '_Actions', right: true, cell: one => <Actions database={database} branch={one} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function Create({ database }: { readonly database: Database }) {
  const snapshots = useQuery(queries.databaseSnapshots(database.id))
  return (
    <FormDialog
      title="New branch"
      submit="Create branch"
      trigger={open => (
        <Button
          size="small"
          onClick={open}
          reason={database.status === 'running' ? undefined : `The database is ${database.status}.`}
        >
          <Plus aria-hidden="true" size={13} /> New branch
        </Button>
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
          <Field label="Name" name="name" required mono autoFocus maxLength={40} placeholder="try-migration" />
          <Choice label="From" name="from_snapshot" defaultValue="">
            <option value="">As it is now</option>
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
  const current = branch.is_current ? 'It is the current branch.' : undefined
  const notReady = branch.status === 'ready' ? undefined : `It is ${branch.status}.`
  return (
    <span className="inline-flex gap-1">
      <Destroy
        name={branch.branch_name}
        verb="Promote"
        what="branch"
        consequence={`Connections to ${database.name} lead to this branch then, and open ones end. The present branch stays as it is.`}
        send={async () => {
          await api.promoteDatabaseBranch(target)
          await refresh()
        }}
        trigger={open => (
          <Button
            look="quiet"
            size="small"
            reason={current ?? notReady}
            onClick={open}
            aria-label={`Promote ${branch.branch_name}`}
          >
            Promote
          </Button>
        )}
      />
      <Destroy
        name={branch.branch_name}
        what="branch"
        consequence="Its data and its backups are gone for good."
        send={async () => {
          await api.deleteDatabaseBranch(target)
          await refresh()
        }}
        trigger={open => (
          <Button
            look="quiet"
            size="smallIcon"
            reason={current}
            aria-label={`Delete ${branch.branch_name}`}
            onClick={open}
          >
            <Trash2 aria-hidden="true" size={14} />
          </Button>
        )}
      />
    </span>
  )
}
