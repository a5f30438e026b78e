import type { Run } from '@mote/client'
import type { ReactNode } from 'react'
import { api } from '../../../api/client.ts'
import { refreshAll } from '../../../api/queries.ts'
import { ActionButton } from '../../../ui/action.tsx'
import { Button } from '../../../ui/button.tsx'
import { DialogButton } from '../../../ui/dialog.tsx'
import { nameOf } from './run-words.ts'

/** Cancels a run after confirmation, because a command that is interrupted may leave inconsistent data behind. */
export function CancelRun({
  app,
  run,
  trigger,
}: {
  readonly app: string
  readonly run: Run
  readonly trigger: (open: () => void) => ReactNode
}) {
  return (
    <DialogButton
      title={`Cancel ${nameOf(run)}?`}
      lead={
        run.purpose === 'release'
          ? 'The command ends at once, and its deployment fails. The old version keeps serving.'
          : 'The command ends at once, and its virtual machine is removed.'
      }
      trigger={trigger}
    >
      {close => (
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={close}>
            Keep it running
          </Button>
          <ActionButton
            look="danger"
            act={async () => {
              await api.cancelRun({ app_name: app, run_id: run.id })
              close()
              await refreshAll('runs')
            }}
          >
            Cancel run
          </ActionButton>
        </div>
      )}
    </DialogButton>
  )
}
