/** Replaces the list of apps while there are none: offers three ways to create the first one. */
import { useNavigate } from '@tanstack/react-router'
import { Boxes, FolderUp, GitBranch, type LucideIcon, Rocket } from 'lucide-react'
import type { ReactNode } from 'react'
import { sampleApp, sampleImage } from '../../../src/lib/sample.ts'
import { api } from '../api/client.ts'
import { refreshAll } from '../api/queries.ts'
import { ActionButton } from '../ui/action.tsx'
import { LinkButton } from '../ui/button.tsx'

export function FirstApp() {
  return (
    <div className="px-4 py-10 sm:px-6">
      <div className="flex flex-col items-center text-center">
        <span className="mb-3 grid size-10 place-items-center rounded-lg border border-line bg-hover text-muted">
          <Boxes aria-hidden="true" size={18} />
        </span>
        <h2 className="font-semibold">No apps yet</h2>
        <p className="mt-1 max-w-md text-muted">
          Try Mote with the sample, or deploy an app of your own. Either runs in a virtual machine of its own.
        </p>
      </div>
      <ul aria-label="Ways to your first app" className="mt-6 grid gap-3 md:grid-cols-3">
        <Way
          icon={Rocket}
          name="The sample"
          text="A small web server that comes with Mote. It is online after one click."
        >
          <DeploySample />
        </Way>
        <Way icon={FolderUp} name="A folder" text="From this computer. Mote detects the kind of app and builds it.">
          <LinkButton to="/apps/new" search={{ source: 'folder' }}>
            Choose a folder
          </LinkButton>
        </Way>
        <Way icon={GitBranch} name="A repository or an image" text="Built on every push, or pulled from a registry.">
          <LinkButton to="/apps/new" search={{ source: 'repository' }}>
            Repository
          </LinkButton>
          <LinkButton to="/apps/new">Image</LinkButton>
        </Way>
      </ul>
    </div>
  )
}

function Way({
  icon: Icon,
  name,
  text,
  children,
}: {
  readonly icon: LucideIcon
  readonly name: string
  readonly text: string
  readonly children: ReactNode
}) {
  return (
    <li className="flex flex-col rounded-lg border border-line p-4">
      <h3 className="flex items-center gap-2 font-semibold">
        <Icon aria-hidden="true" size={16} className="text-accent-text" /> {name}
      </h3>
      <p className="mt-1 mb-4 text-muted">{text}</p>
      <div className="mt-auto flex flex-wrap gap-2">{children}</div>
    </li>
  )
}

function DeploySample() {
  const navigate = useNavigate()
  const deploy = async () => {
    const params = await createSample()
    await navigate({ to: '/apps/$app/deployments/$job', params })
  }
  return (
    <ActionButton look="primary" act={deploy}>
      Deploy the sample
    </ActionButton>
  )
}

/** Deploys the sample. Returns the route parameters of the deployment page. */
async function createSample() {
  const app = sampleApp.name
  await api.createApp({ body: sampleApp })
  try {
    const { job_id } = await api.deployApp({ app_name: app, body: { image: sampleImage } })
    return { app, job: job_id }
  } catch (cause) {
    // Delete the app of the failed deployment, so that this page offers the sample again.
    await api.deleteApp({ app_name: app })
    throw cause
  } finally {
    await refreshAll('apps')
  }
}
