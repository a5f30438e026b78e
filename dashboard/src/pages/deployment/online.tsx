import type { App, LiveDeploymentStatus } from '@mote/client'
import { ExternalLink } from 'lucide-react'
import { sampleImage } from '../../../../src/lib/sample.ts'
import { LinkButton } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Card } from '../../ui/layout.tsx'

/** A card with the app's address, on the page of the deployment that serves it. */
export function Online({ app, live }: { readonly app: App; readonly live: LiveDeploymentStatus }) {
  if (app.active_deployment_id !== live.deployment_id || live.status !== 'running') return null
  if (app.kind !== 'web' || !app.url) return null
  return (
    <Card title={`${app.name} is online`}>
      <a
        href={app.url}
        target="_blank"
        rel="noreferrer"
        className="flex w-fit max-w-full items-center gap-1.5 font-medium text-accent-text hover:underline"
      >
        <span className="truncate">{app.hostname}</span>
        <ExternalLink aria-label="opens in a new tab" size={13} className="shrink-0" />
      </a>
      {live.image === sampleImage && <Next />}
    </Card>
  )
}

function Next() {
  return (
    <div className="mt-4 space-y-3 border-t border-line pt-4">
      <p className="text-muted">This was the sample. Next, deploy a folder of yours here, or in a terminal:</p>
      <CopyBox label="sign-in command" text={`mote login --url ${location.origin}`} />
      <CopyBox label="launch command" text="mote launch" />
      <LinkButton to="/apps/new" search={{ source: 'folder' }}>
        Choose a folder
      </LinkButton>
    </div>
  )
}
