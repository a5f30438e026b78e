import type { Database } from '@mote/client'
import { Scaling } from 'lucide-react'
import { api } from '../../api/client.ts'
import { refreshAll } from '../../api/queries.ts'
import { FormDialog } from '../../ui/dialog.tsx'
import { AddButton } from '../../ui/row-actions.tsx'
import { toast } from '../../ui/toast.tsx'
import { MemoryChoice, VcpuChoice } from './size.tsx'

/** A dialog to change vCPUs and memory, which restarts the VM; the disk keeps its size. */
export function Resize({ database }: { readonly database: Database }) {
  return (
    <FormDialog
      title={`Resize ${database.name}`}
      lead="The virtual machine restarts with the new size. Connections are closed; reconnect after a few seconds."
      submit="Resize"
      trigger={open => (
        <AddButton
          text="Resize"
          icon={Scaling}
          reason={database.status === 'running' ? undefined : `The database is ${database.status}.`}
          onClick={open}
        />
      )}
      send={async values => {
        const body = { vcpus: values.number('vcpus'), memory_mib: values.number('memory_mib') }
        await api.updateDatabase({ id: database.id, body })
        await refreshAll('databases', 'branches')
        toast({ tone: 'info', title: `Resizing ${database.name}` })
      }}
      fields={
        <div className="grid grid-cols-2 gap-3">
          <VcpuChoice now={database.vcpus} />
          <MemoryChoice now={database.memory_mib} />
        </div>
      }
    />
  )
}
