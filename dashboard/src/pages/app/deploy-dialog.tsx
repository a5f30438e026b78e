import type { App } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { FolderField, sendFolder } from '../../source/folder-field.tsx'
import { SizeFields, sizeOf } from './size-fields.tsx'

/** Deploys an image with a size, then opens the deployment's page to follow the rollout. */
export function DeployDialog({
  app,
  trigger,
}: {
  readonly app: App
  readonly trigger: (open: () => void) => ReactNode
}) {
  const navigate = useNavigate()
  const active = useQuery(queries.active())
  const running = active.data?.find(one => one.deployment_id === app.active_deployment_id)
  return (
    <FormDialog
      trigger={trigger}
      title={`Deploy ${app.name}`}
      lead="The new version takes over once it is healthy. Until then the old one keeps serving."
      submit="Deploy"
      send={async values => {
        const source = await sendFolder(app.name, values.files('folder'))
        const { job_id } = await api.deployApp({
          app_name: app.name,
          body: { ...(source ? { source } : { image: values.optional('image') }), ...sizeOf(values) },
        })
        await refreshAll('active', 'deployments')
        await navigate({ to: '/apps/$app/deployments/$job', params: { app: app.name, job: job_id } })
      }}
      fields={
        <>
          <Field
            label="Image"
            name="image"
            mono
            autoFocus
            spellCheck={false}
            autoComplete="off"
            defaultValue={running?.image ?? ''}
            placeholder="docker.io/library/nginx:1.27"
            hint={app.git_url ? 'Leave empty to rebuild the source.' : 'Leave empty to redeploy the last image.'}
          />
          <FolderField />
          <SizeFields vcpus={running?.vcpus} memoryMib={running?.memory_mib} />
        </>
      }
    />
  )
}

/** The deploy button for an app without deployments. */
export const FirstDeployButton = ({ app }: { readonly app: App }) => (
  <DeployDialog
    app={app}
    trigger={open => (
      <Button look="primary" onClick={open}>
        Deploy an image
      </Button>
    )}
  />
)
