import type { Database } from '@mote/client'
import { Scaling } from 'lucide-react'
import { api } from '../../api/client.ts'
import { refreshAll } from '../../api/queries.ts'
import { FormDialog } from '../../ui/dialog.tsx'
import { AddButton } from '../../ui/row-actions.tsx'
import { toast } from '../../ui/toast.tsx'
import { MemoryChoice, VcpuChoice } from './size.tsx'

/** Other processors and memory: its virtual machine starts again with them; the disk stays as it is. */
export function Resize({ database }: { readonly database: Database }) {
  return (
    <FormDialog
      title={`Resize ${database.name}`}
      lead="The virtual machine starts again with the new size. Connections end and can come back after some seconds."
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
        toast({ tone: 'info', title: `${database.name} gets its new size` })
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
