import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Database as DatabaseIcon, Plus } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'
import { Card, Page } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { isMoving, Status } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'

export function Databases() {
  const databases = useQuery({
    ...queries.databases(),
    refetchInterval: ({ state }) => (state.data?.some(one => isMoving(one.status)) ? 1500 : 15_000),
  })
  return (
    <Page
      title="Databases"
      lead="PostgreSQL, each in a virtual machine of its own, with backups."
      actions={databases.data && databases.data.length > 0 && <Create />}
    >
      <Card flush>
        <Loaded query={databases}>
          {all =>
            all.length === 0 ? (
              <Empty icon={DatabaseIcon} title="No databases yet" action={<Create />}>
                Create one, and copy the command that connects to it.
              </Empty>
            ) : (
              <Table
                label="Databases"
                rows={all}
                keyOf={one => one.id}
                columns={[
                  {
                    title: 'Name',
                    cell: one => (
                      <Link to="/databases/$id" params={{ id: one.id }} className="font-semibold hover:underline">
                        {one.name}
                      </Link>
                    ),
                  },
                  { title: 'Status', cell: one => <Status status={one.status} /> },
                  {
                    title: 'Engine',
                    wideOnly: true,
                    cell: one => (
                      <span>
                        {one.engine === 'postgres' ? 'PostgreSQL' : one.engine} {one.postgres_version}
                      </span>
                    ),
                  },
                  {
                    title: 'Size',
                    wideOnly: true,
                    cell: one => `${one.vcpus} vCPU · ${mib(one.memory_mib)} · ${mib(one.disk_mib)} disk`,
                  },
                  {
                    title: 'Created',
                    right: true,
                    cell: one => (
                      <span className="text-muted">
                        <Ago at={one.created_at} />
                      </span>
                    ),
                  },
                ]}
              />
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}

const versions = [18, 17, 16, 15] as const

function Create() {
  const navigate = useNavigate()
  return (
    <FormDialog
      title="New database"
      submit="Create database"
      trigger={open => (
        <Button look="primary" onClick={open}>
          <Plus aria-hidden="true" size={15} /> New database
        </Button>
      )}
      send={async values => {
        const { id } = await api.createDatabase({
          body: {
            name: values.text('name'),
            engine: 'postgres',
            postgres_version: values.number('postgres_version'),
            vcpus: values.number('vcpus'),
            memory_mib: values.number('memory_mib'),
            disk_mib: values.number('disk_mib'),
          },
        })
        await refreshAll('databases')
        await navigate({ to: '/databases/$id', params: { id } })
      }}
      fields={
        <>
          <Field
            label="Name"
            name="name"
            required
            autoFocus
            mono
            maxLength={40}
            placeholder="orders"
            autoComplete="off"
            hint="Lower-case letters, digits and dashes."
          />
          <div className="grid grid-cols-2 gap-3">
            <Choice label="PostgreSQL" name="postgres_version" defaultValue="">
              <option value="">Default version</option>
              {versions.map(version => (
                <option key={version}>{version}</option>
              ))}
            </Choice>
            <Choice label="vCPUs" name="vcpus" defaultValue="1">
              {[1, 2, 3, 4].map(count => (
                <option key={count}>{count}</option>
              ))}
            </Choice>
            <Choice label="Memory" name="memory_mib" defaultValue="1024">
              {[512, 1024, 2048, 4096].map(size => (
                <option key={size} value={size}>
                  {mib(size)}
                </option>
              ))}
            </Choice>
            <Choice label="Disk" name="disk_mib" defaultValue="10240">
              {[1024, 10_240, 51_200, 102_400].map(size => (
                <option key={size} value={size}>
                  {mib(size)}
                </option>
              ))}
            </Choice>
          </div>
        </>
      }
    />
  )
}
