import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Destroy } from '../../ui/dialog.tsx'
import { Check, Field, Form } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Problem, Skeleton } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { useApp } from './use-app.ts'

export function Settings() {
  const app = useApp()
  const navigate = useNavigate()
  return (
    <div className="space-y-4">
      <Card title="Program" lead="Takes effect with the next deploy.">
        <Form
          className="max-w-xl"
          submit="Save"
          send={async values => {
            await api.updateApp({
              app_name: app.name,
              body: {
                port: values.number('port') ?? app.port,
                health_check_path: values.text('health_check_path'),
                drain_timeout: values.number('drain_timeout'),
                git_url: values.text('git_url'),
                git_branch: values.text('git_branch'),
                git_submodules: values.checked('git_submodules'),
              },
            })
            await refreshAll('app', 'apps')
            toast({ tone: 'good', title: 'Settings were saved' })
          }}
        >
          <div className="grid grid-cols-2 gap-3">
            <Field
              label="Port"
              name="port"
              type="number"
              required
              min={1}
              max={65_535}
              defaultValue={app.port}
              hint="Where the program listens."
            />
            <Field
              label="Drain, seconds"
              name="drain_timeout"
              type="number"
              required
              min={0}
              max={3600}
              defaultValue={app.drain_timeout}
              hint="For requests under way when a version ends."
            />
          </div>
          <Field
            label="Health check"
            name="health_check_path"
            mono
            required
            defaultValue={app.health_check_path}
            hint="Must answer 2xx or 3xx before a deployment serves."
          />
          <Field
            label="Source"
            name="git_url"
            mono
            defaultValue={app.git_url}
            placeholder="https://host/owner/repo.git"
          />
          <Field
            label="Branch"
            name="git_branch"
            mono
            defaultValue={app.git_branch}
            placeholder="main"
            hint="Pushes to it are built and deployed. Empty: the default branch of the repository."
          />
          <Check label="With submodules" name="git_submodules" defaultChecked={app.git_submodules} />
        </Form>
      </Card>
      <Webhook id={app.id} name={app.name} />
      <Card danger title="Delete this app" lead="Its deployments, virtual machines and logs go with it. Volumes stay.">
        <Destroy
          name={app.name}
          what="app"
          consequence="The app stops answering at once, and nothing of it can be brought back. Volumes stay."
          send={async () => {
            await api.deleteApp({ app_name: app.name })
            await navigate({ to: '/apps' })
            await refreshAll('apps', 'active')
            toast({ tone: 'info', title: `${app.name} is being deleted` })
          }}
          trigger={open => (
            <Button look="danger" onClick={open}>
              Delete {app.name}
            </Button>
          )}
        />
      </Card>
    </div>
  )
}

/** Asked for only when it is wanted: it is a secret. */
function Webhook({ id, name }: { readonly id: string; readonly name: string }) {
  const [isShown, setShown] = useState(false)
  const secret = useQuery({
    queryKey: ['app-secret', name],
    queryFn: ({ signal }) => api.getAppSecret({ app_name: name }, { signal }),
    enabled: isShown,
    gcTime: 0,
  })
  const hide = () => {
    setShown(false)
    queryClient.removeQueries({ queryKey: ['app-secret', name] })
  }
  return (
    <Card title="Deploy on push" lead="A git host calls this address after a push, signed with the secret.">
      <div className="max-w-xl space-y-3">
        <CopyBox text={`${location.origin}/v1/webhooks/scm/${id}`} label="webhook address" />
        {!isShown && <Button onClick={() => setShown(true)}>Show the secret</Button>}
        {isShown && secret.isPending && <Skeleton className="h-9" />}
        {isShown && secret.error && <Problem error={secret.error} />}
        {isShown && secret.data && (
          <>
            <CopyBox text={secret.data.scm_webhook_secret ?? ''} label="webhook secret" />
            <Button onClick={hide}>Hide</Button>
          </>
        )}
      </div>
    </Card>
  )
}
