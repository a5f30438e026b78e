import type { Database, DatabaseSnapshot } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Archive, Plus, RotateCcw, Trash2 } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { bytes } from '../../ui/format.ts'
import { Card, Fact, Facts, Mono } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Badge, Status } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { Ago } from '../../ui/time.tsx'

const whyNotUp = ({ status }: Database) => (status === 'running' ? undefined : `The database is ${status}.`)

export function Backups({ database }: { readonly database: Database }) {
  const backups = useQuery(queries.backups(database.id))
  const snapshots = useQuery({
    ...queries.databaseSnapshots(database.id),
    refetchInterval: ({ state }) => (state.data?.some(one => one.status === 'creating') ? 1000 : 30_000),
  })
  return (
    <Card flush title="Backups" actions={<Take database={database} />}>
      {backups.data && (
        <div className="border-b border-line p-4">
          <Facts>
            <Fact name="Strategy">{backups.data.backup_strategy}</Fact>
            <Fact name="Recovery">{backups.data.recovery_mode}</Fact>
            <Fact name="Status">
              <Status status={backups.data.status} />
            </Fact>
            <Fact name="Newest backup">
              {backups.data.retention_valid ? (
                <Badge tone="good">Restored and checked</Badge>
              ) : (
                <Badge tone="warn">Not checked yet</Badge>
              )}
            </Fact>
          </Facts>
        </div>
      )}
      <Loaded query={snapshots}>
        {all =>
          all.length === 0 ? (
            <Empty icon={Archive} title="No backups by hand">
              Take one before something risky; the database can go back to it.
            </Empty>
          ) : (
            <Table
              label="Backup snapshots"
              rows={all}
              keyOf={one => one.name}
              columns={[
                { title: 'Name', cell: one => <Mono className="font-medium">{one.name}</Mono> },
                { title: 'Status', cell: one => <Status status={one.status} /> },
                { title: 'Size', wideOnly: true, cell: one => bytes(one.size_bytes) },
                {
                  title: 'When',
                  wideOnly: true,
                  cell: one => (
                    <span className="text-muted">
                      <Ago at={one.created_at} />
                    </span>
                  ),
                },
                { title: '_Actions', right: true, cell: one => <Actions database={database} snapshot={one} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function Take({ database }: { readonly database: Database }) {
  return (
    <FormDialog
      title="Take a backup"
      submit="Take backup"
      trigger={open => (
        <Button size="small" onClick={open} reason={whyNotUp(database)}>
          <Plus aria-hidden="true" size={13} /> Take backup
        </Button>
      )}
      send={async values => {
        await api.createDatabaseSnapshot({ id: database.id, body: { name: values.text('name') } })
        await refreshAll('database-snapshots', 'backups')
      }}
      fields={<Field label="Name" name="name" required mono autoFocus maxLength={63} placeholder="before-migration" />}
    />
  )
}

function Actions({ database, snapshot }: { readonly database: Database; readonly snapshot: DatabaseSnapshot }) {
  const { name } = snapshot
  const notReady = snapshot.status === 'ready' ? undefined : `The backup is ${snapshot.status}.`
  return (
    <span className="inline-flex gap-1">
      <Destroy
        name={name}
        verb="Restore"
        what="backup"
        consequence={`${database.name} goes back to where it was then. What it is now is kept as another backup.`}
        send={async () => {
          const { message } = await api.restoreDatabase({ id: database.id, body: { snapshot_name: name } })
          await refreshAll('databases', 'branches', 'database-snapshots')
          toast({ tone: 'info', title: `Going back to ${name}`, body: message })
        }}
        trigger={open => (
          <Button
            look="quiet"
            size="smallIcon"
            aria-label={`Restore ${name}`}
            reason={notReady ?? whyNotUp(database)}
            onClick={open}
          >
            <RotateCcw aria-hidden="true" size={14} />
          </Button>
        )}
      />
      <Destroy
        name={name}
        what="backup"
        consequence="It cannot be brought back."
        send={async () => {
          await api.deleteDatabaseSnapshot({ id: database.id, snapshot_name: name })
          await refreshAll('database-snapshots')
        }}
        trigger={open => (
          <Button look="quiet" size="smallIcon" aria-label={`Delete ${name}`} onClick={open}>
            <Trash2 aria-hidden="true" size={14} />
          </Button>
        )}
      />
    </span>
  )
}
