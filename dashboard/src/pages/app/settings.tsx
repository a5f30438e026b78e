import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Destroy } from '../../ui/dialog.tsx'
import { Check, Field, TextArea } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Problem, Skeleton } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { BuildSettings } from './build-settings.tsx'
import { Canary } from './canary.tsx'
import { HostSettings } from './host-settings.tsx'
import { Restarts } from './restarts.tsx'
import { StrategySetting } from './strategy.tsx'
import { changedRelease, summaryOf } from './jobs/command.ts'
import { useApp } from './use-app.ts'
import { SettingsForm } from './settings-form.tsx'

export function Settings() {
  const app = useApp()
  const navigate = useNavigate()
  return (
    <div className="space-y-4">
      <Card title="Program" lead="Takes effect with the next deploy.">
        <SettingsForm
          app={app}
          changes={values => ({
            port: values.number('port') ?? app.port,
            health_check_path: values.text('health_check_path'),
            drain_timeout: values.number('drain_timeout'),
            release_command: changedRelease(values.text('release_command'), app.release_command),
            git_url: values.text('git_url'),
            git_branch: values.text('git_branch'),
            git_submodules: values.checked('git_submodules'),
          })}
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
              hint="Port your app listens on (passed as $PORT)."
            />
            <Field
              label="Drain time, seconds"
              name="drain_timeout"
              type="number"
              required
              min={0}
              max={3600}
              defaultValue={app.drain_timeout}
              hint="Time for in-flight requests when a version stops."
            />
          </div>
          <Field
            label="Health check"
            name="health_check_path"
            mono
            required
            defaultValue={app.health_check_path}
            hint="Must return 2xx or 3xx before a deployment gets traffic."
          />
          <ReleaseField command={app.release_command} />
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
            hint="Pushes to this branch are built and deployed. Empty: the repository's default branch."
          />
          <Check label="With submodules" name="git_submodules" defaultChecked={app.git_submodules} />
        </SettingsForm>
      </Card>
      <StrategySetting app={app} />
      <HostSettings app={app} />
      {app.kind === 'web' && <Canary app={app} />}
      <BuildSettings app={app} />
      <Restarts app={app} />
      <Webhook id={app.id} name={app.name} />
      <Card
        danger
        title="Delete this app"
        lead="Also deletes its deployments, virtual machines and logs. Volumes are kept."
      >
        <Destroy
          name={app.name}
          what="app"
          consequence="The app stops serving immediately and cannot be restored. Volumes are kept."
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

function ReleaseField({ command }: { readonly command: readonly string[] | null }) {
  const text = summaryOf(command ?? [])
  return (
    <TextArea
      label="Release command"
      name="release_command"
      rows={Math.min(text.split('\n').length, 10)}
      maxLength={8192}
      defaultValue={text}
      placeholder="python manage.py migrate"
      spellCheck={false}
      hint="Runs in a shell, in a separate VM, with each new version before it serves. If it fails, the old version keeps serving."
    />
  )
}

/**
 * Webhook URL of the app, and the secret that signs deliveries. The secret is fetched only when the user asks for it.
 */
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
    <Card title="Deploy on push" lead="Webhook URL for your git host. Deliveries must be signed with the secret.">
      <div className="max-w-xl space-y-3">
        <CopyBox text={`${location.origin}/v1/webhooks/scm/${id}`} label="webhook address" />
        {!isShown && <Button onClick={() => setShown(true)}>Show secret</Button>}
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
