/** Dialogs that change files. */
import type { VmFile } from '@mote/client'
import { FolderPlus, PencilLine, Trash2 } from 'lucide-react'
import { api } from '../../../api/client.ts'
import { refreshAll } from '../../../api/queries.ts'
import { Button } from '../../../ui/button.tsx'
import { Dialog, FormDialog } from '../../../ui/dialog.tsx'
import { NameField } from '../../../ui/form.tsx'
import { plural } from '../../../ui/format.ts'
import { AddButton, IconButton } from '../../../ui/row-actions.tsx'
import { inDirectory, nameFault, parentOf } from './path.ts'
import type { Place } from './transfer.ts'

/** Returns the name if it is valid. @throws Error to be shown in the form */
function checked(name: string): string {
  const fault = nameFault(name)
  if (fault !== undefined) throw new Error(fault)
  return name
}

export function NewFolder({ place, directory }: { readonly place: Place; readonly directory: string }) {
  const { app_name, job_id, vm_id } = place
  return (
    <FormDialog
      title="New folder"
      submit="Create"
      trigger={open => <AddButton text="New folder" icon={FolderPlus} onClick={open} />}
      send={async values => {
        const encoded_path = inDirectory(directory, checked(values.text('name')))
        await api.createVmDirectory({ app_name, job_id, body: { encoded_path, vm_id } })
        await refreshAll('files')
      }}
      fields={<NameField />}
    />
  )
}

interface OfFile {
  readonly place: Place
  readonly file: VmFile
}

export function Rename({ place, file }: OfFile) {
  const { app_name, job_id, vm_id } = place
  return (
    <FormDialog
      title="Rename"
      lead={file.path}
      submit="Rename"
      trigger={open => <IconButton icon={PencilLine} label={`Rename ${file.name}`} onClick={open} />}
      send={async values => {
        const name = checked(values.text('name'))
        const encoded_to = inDirectory(parentOf(file.encoded_path), name)
        await api.moveVmFile({
          app_name,
          job_id,
          body: { encoded_path: file.encoded_path, encoded_to, vm_id },
        })
        await refreshAll('files')
      }}
      fields={<NameField label="New name" defaultValue={file.name} />}
    />
  )
}

export function Remove({ place, file }: OfFile) {
  const { app_name, job_id, vm_id } = place
  const recursive = file.type === 'directory'
  return (
    <FormDialog
      title={`Delete ${file.name}?`}
      lead={recursive ? 'The folder is deleted from the VM with everything in it.' : 'It is deleted from the VM.'}
      submit="Delete"
      look="danger"
      trigger={open => <IconButton icon={Trash2} label={`Delete ${file.name}`} onClick={open} />}
      send={async () => {
        const query = { encoded_path: file.encoded_path, recursive, vm_id }
        await api.removeVmFile({ app_name, job_id, query })
        await refreshAll('files')
      }}
    />
  )
}

/** Asks the user before an upload replaces existing files. */
export function ConfirmReplace({
  names,
  confirm,
  close,
}: {
  readonly names: readonly string[]
  readonly confirm: () => void
  readonly close: () => void
}) {
  return (
    <Dialog
      title={`Replace ${plural(names.length, 'file')}?`}
      lead="The VM has files with the same names:"
      close={close}
    >
      <ul className="mb-4 max-h-40 overflow-y-auto font-mono text-xs">
        {names.map(name => (
          <li key={name} className="truncate">
            {name}
          </li>
        ))}
      </ul>
      <div className="flex justify-end gap-2">
        <Button look="quiet" onClick={close}>
          Cancel
        </Button>
        <Button look="danger" onClick={confirm}>
          Replace
        </Button>
      </div>
    </Dialog>
  )
}
