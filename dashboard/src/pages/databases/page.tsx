import type { Database } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { Database as DatabaseIcon, Trash2 } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Destroy } from '../../ui/dialog.tsx'
import { mib } from '../../ui/format.ts'
import { Card, Fact, Facts, Mono, Page } from '../../ui/layout.tsx'
import { Log } from '../../ui/log.tsx'
import { Loaded, Missing } from '../../ui/states.tsx'
import { isMoving, Status } from '../../ui/status.tsx'
import { Ago } from '../../ui/time.tsx'
import { Backups } from './backups.tsx'
import { Branches } from './branches.tsx'
import { Power } from './power.tsx'
import { Resize } from './resize.tsx'

export function DatabasePage() {
  const { id } = useParams({ from: '/shell/databases/$id' })
  const databases = useQuery({
    ...queries.databases(),
    refetchInterval: ({ state }) => (state.data?.some(one => isMoving(one.status)) ? 1000 : 15_000),
  })
  const database = databases.data?.find(one => one.id === id)
  return (
    <Page
      title={
        <span className="flex items-center gap-3">
          {database?.name ?? 'Database'} {database && <Status status={database.status} />}
        </span>
      }
      actions={
        database && (
          <>
            <Power database={database} />
            <Delete database={database} />
          </>
        )
      }
    >
      <Loaded query={databases}>
        {() =>
          database ? <Whole database={database} /> : <Missing icon={DatabaseIcon} what="database" to="/databases" />
        }
      </Loaded>
    </Page>
  )
}

/**
 * Refetches the database's branches and backups when its status changes, because a restore may end between two polls.
 */
function useChangesOf({ status }: Database): void {
  const shown = useRef(status)
  useEffect(() => {
    if (shown.current === status) return
    shown.current = status
    void refreshAll('branches', 'backups', 'database-snapshots', 'connection')
  }, [status])
}

function Whole({ database }: { readonly database: Database }) {
  useChangesOf(database)
  return (
    <div className="space-y-4">
      <Card title="Virtual machine" actions={<Resize database={database} />}>
        <Facts>
          <Fact name="Engine">PostgreSQL {database.postgres_version}</Fact>
          <Fact name="Size">
            {database.vcpus} vCPU · {mib(database.memory_mib)}
          </Fact>
          <Fact name="Disk">{mib(database.disk_mib)}</Fact>
          <Fact name="Created">
            <Ago at={database.created_at} />
          </Fact>
        </Facts>
      </Card>
      <Connection database={database} />
      <Branches database={database} />
      <Backups database={database} />
      <Card flush title="Log" lead="Server log of the current branch." className="overflow-hidden">
        <Log
          source={database.id}
          name={database.name}
          open={options => api.streamDatabaseLogs({ id: database.id, query: { tail: 500 } }, options)}
          className="h-80"
        />
      </Card>
    </div>
  )
}

function Connection({ database }: { readonly database: Database }) {
  const isUp = database.status === 'running' || database.status === 'suspended'
  const connection = useQuery({ ...queries.connection(database.id), enabled: isUp, gcTime: 0 })
  return (
    <Card title="Connect" lead="Commands to copy and run. They contain the password: keep them secret.">
      {isUp ? (
        <Loaded query={connection}>
          {info => (
            <div className="space-y-3">
              <div>
                <h3 className="mb-1 text-xs text-muted">psql</h3>
                <CopyBox text={info.psql_command} label="psql command" />
              </div>
              <div>
                <h3 className="mb-1 text-xs text-muted">SSH tunnel, from anywhere</h3>
                <CopyBox text={info.ssh_tunnel_command} label="SSH tunnel command" />
              </div>
              <Facts>
                <Fact name="Host">
                  <Mono>{info.database_host}</Mono>
                </Fact>
                <Fact name="Port">{info.database_port}</Fact>
                <Fact name="User">
                  <Mono>{info.database_user}</Mono>
                </Fact>
                <Fact name="Database">
                  <Mono>{info.database_name}</Mono>
                </Fact>
              </Facts>
            </div>
          )}
        </Loaded>
      ) : (
        <p className="text-muted">It is {database.status}. The commands are here as soon as it accepts connections.</p>
      )}
    </Card>
  )
}

function Delete({ database }: { readonly database: Database }) {
  const navigate = useNavigate()
  return (
    <Destroy
      name={database.name}
      what="database"
      consequence="Its data, branches and backups are deleted permanently."
      send={async () => {
        await api.deleteDatabase({ id: database.id })
        await navigate({ to: '/databases' })
        await refreshAll('databases')
      }}
      trigger={open => (
        <Button
          onClick={open}
          reason={database.status === 'deleting' ? 'The database is already being deleted.' : undefined}
        >
          <Trash2 aria-hidden="true" size={14} /> Delete
        </Button>
      )}
    />
  )
}
