import type { Database, DatabaseSnapshot } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Archive, RotateCcw } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll, whileCreating } from '../../api/queries.ts'
import { FormDialog } from '../../ui/dialog.tsx'
import { NameField } from '../../ui/form.tsx'
import { bytes } from '../../ui/format.ts'
import { Fact, Facts, Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'
import { Badge, Status } from '../../ui/status.tsx'
import { toast } from '../../ui/toast.tsx'

interface Props {
  readonly database: Database
}

const whyNotUp = ({ status }: Database) => (status === 'running' ? undefined : `The database is ${status}.`)

export function Backups({ database }: Props) {
  const snapshots = useQuery({
    ...queries.databaseSnapshots(database.id),
    // Poll while the database is not running: a restore stores the previous data as another backup.
    refetchInterval: query => (database.status === 'running' ? whileCreating(query) : 1000),
  })
  return (
    <ListCard
      title="Backups"
      actions={<Take database={database} />}
      query={snapshots}
      nothing={{
        icon: Archive,
        title: 'No manual backups',
        text: 'Take one before a risky change, so that you can restore it.',
      }}
      label="Backup snapshots"
      keyOf={one => one.name}
      columns={[
        { title: 'Name', cell: one => <Mono className="font-medium">{one.name}</Mono> },
        { title: 'Status', cell: one => <Status status={one.status} /> },
        { title: 'Size', wideOnly: true, cell: one => bytes(one.size_bytes) },
        { title: 'When', at: one => one.created_at },
      ]}
      actionsOf={one => <Actions database={database} snapshot={one} />}
    >
      <Automatic database={database} />
    </ListCard>
  )
}

/** Automatic backups, and whether a test restore of them succeeded. */
function Automatic({ database }: Props) {
  const { data } = useQuery(queries.backups(database.id))
  if (!data) return null
  return (
    <div className="border-b border-line p-4">
      <Facts>
        <Fact name="Strategy">{data.backup_strategy}</Fact>
        <Fact name="Recovery">{data.recovery_mode.replaceAll('_', ' ')}</Fact>
        <Fact name="Status">
          <Status status={data.status} />
        </Fact>
        <Fact name="Newest backup">
          {data.retention_valid ? (
            <Badge tone="good">Restored and checked</Badge>
          ) : (
            <Badge tone="warn">Not checked yet</Badge>
          )}
        </Fact>
      </Facts>
    </div>
  )
}

function Take({ database }: Props) {
  return (
    <FormDialog
      title="Take a backup"
      submit="Take backup"
      trigger={open => <AddButton text="Take backup" reason={whyNotUp(database)} onClick={open} />}
      send={async values => {
        await api.createDatabaseSnapshot({ id: database.id, body: { name: values.text('name') } })
        await refreshAll('database-snapshots', 'backups')
      }}
      fields={<NameField maxLength={63} placeholder="before-migration" />}
    />
  )
}

function Actions({ database, snapshot }: Props & { readonly snapshot: DatabaseSnapshot }) {
  const { name } = snapshot
  const notReady = snapshot.status === 'ready' ? undefined : `The backup is ${snapshot.status}.`
  return (
    <>
      <DestroyIcon
        icon={RotateCcw}
        name={name}
        verb="Restore"
        what="backup"
        reason={notReady ?? whyNotUp(database)}
        consequence={`${database.name} is restored to this backup. The current data is kept as another backup.`}
        send={async () => {
          const { message } = await api.restoreDatabase({ id: database.id, body: { snapshot_name: name } })
          // Refetch the databases first: when their status changes, pages refetch branches and backups.
          await refreshAll('databases')
          await refreshAll('branches', 'database-snapshots')
          toast({ tone: 'info', title: `Restoring ${name}`, body: message })
        }}
      />
      <DestroyIcon
        name={name}
        what="backup"
        consequence="It cannot be restored."
        send={async () => {
          await api.deleteDatabaseSnapshot({ id: database.id, snapshot_name: name })
          await refreshAll('database-snapshots')
        }}
      />
    </>
  )
}
