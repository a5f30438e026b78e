import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Database as DatabaseIcon, Plus } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice, NameField } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'
import { ListPage } from '../../ui/listing.tsx'
import { isMoving, Status } from '../../ui/status.tsx'
import { DiskChoice, MemoryChoice, VcpuChoice } from './size.tsx'

export function Databases() {
  const databases = useQuery({
    ...queries.databases(),
    refetchInterval: ({ state }) => (state.data?.some(one => isMoving(one.status)) ? 1500 : 15_000),
  })
  return (
    <ListPage
      title="Databases"
      lead="PostgreSQL, each in its own virtual machine, with backups."
      create={<Create />}
      query={databases}
      filter={{ list: 'databases', find: 'Find a database', text: one => one.name, status: one => one.status }}
      nothing={{
        icon: DatabaseIcon,
        title: 'No databases yet',
        text: 'Create one and copy its connection command.',
      }}
      label="Databases"
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
          cell: one => `${one.engine === 'postgres' ? 'PostgreSQL' : one.engine} ${one.postgres_version}`,
        },
        {
          title: 'Size',
          wideOnly: true,
          cell: one => `${one.vcpus} vCPU · ${mib(one.memory_mib)} · ${mib(one.disk_mib)} disk`,
        },
        { title: 'Created', at: one => one.created_at, right: true },
      ]}
    />
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
          <NameField maxLength={40} placeholder="orders" hint="Lowercase letters, digits and dashes." />
          <div className="grid grid-cols-2 gap-3">
            <Choice label="PostgreSQL" name="postgres_version" defaultValue="">
              <option value="">Default version</option>
              {versions.map(version => (
                <option key={version}>{version}</option>
              ))}
            </Choice>
            <VcpuChoice />
            <MemoryChoice />
            <DiskChoice />
          </div>
        </>
      }
    />
  )
}
