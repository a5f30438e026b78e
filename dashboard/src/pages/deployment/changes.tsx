import { type Deployment, type DeploymentDiff, imageName, versionOf } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { queries } from '../../api/queries.ts'
import { controlLook } from '../../ui/form.tsx'
import { Card, Mono } from '../../ui/layout.tsx'
import { Loaded } from '../../ui/states.tsx'

/** Shows the differences to the deployment before this one, or to another one that the user selects. */
export function Changes({
  app_name,
  job_id,
  deployments,
}: {
  readonly app_name: string
  readonly job_id: string
  readonly deployments: readonly Deployment[]
}) {
  const at = deployments.findIndex(one => one.job_id === job_id)
  const [chosen, choose] = useState<string>()
  const base = chosen ?? deployments[at + 1]?.job_id
  const diff = useQuery({ ...queries.diff(app_name, job_id, base ?? ''), enabled: at >= 0 && base !== undefined })
  if (at < 0 || base === undefined) return null
  return (
    <Card
      title="Changes"
      actions={
        <select
          aria-label="Compare with"
          value={base}
          onChange={event => choose(event.target.value)}
          className={`${controlLook} max-w-60 border-line-strong`}
        >
          {deployments
            .filter(one => one.job_id !== job_id)
            .map(one => (
              <option key={one.id} value={one.job_id}>
                since {versionOf(one)} ({one.job_id})
              </option>
            ))}
        </select>
      }
    >
      <Loaded query={diff}>{found => <DiffView diff={found} />}</Loaded>
    </Card>
  )
}

const labels: Readonly<Record<string, string>> = {
  image: 'Image',
  git_commit_hash: 'Commit',
  git_branch: 'Branch',
  vcpus: 'vCPUs',
  memory_mib: 'Memory, MiB',
  disk_mib: 'Disk, MiB',
  port: 'Port',
  hypervisor: 'Hypervisor',
  command: 'Command',
  arguments: 'Arguments',
  release_command: 'Release command',
  health_check_path: 'Health check',
}

const shown = (field: string, value: string | null) => {
  if (value === null) return 'none'
  if (field === 'image') return imageName(value)
  return field === 'git_commit_hash' ? value.slice(0, 10) : value
}

function DiffView({ diff }: { readonly diff: DeploymentDiff }) {
  const named = [
    ...diff.env_added.map(name => ({ name, what: 'Variable added' })),
    ...diff.env_changed.map(name => ({ name, what: 'Variable changed' })),
    ...diff.env_removed.map(name => ({ name, what: 'Variable removed' })),
    ...diff.files_added.map(name => ({ name, what: 'File added' })),
    ...diff.files_changed.map(name => ({ name, what: 'File changed' })),
    ...diff.files_removed.map(name => ({ name, what: 'File removed' })),
  ]
  if (diff.fields.length === 0 && named.length === 0)
    return <p className="text-muted">Nothing differs: same image, size, settings, variables and files.</p>
  return (
    <dl className="space-y-3">
      {diff.fields.map(({ field, from, to }) => (
        <div key={field} className="grid gap-x-4 sm:grid-cols-[8rem_minmax(0,1fr)]">
          <dt className="text-muted">{labels[field] ?? field}</dt>
          <dd className="wrap-anywhere">
            <Mono className="text-muted line-through">{shown(field, from)}</Mono> → <Mono>{shown(field, to)}</Mono>
          </dd>
        </div>
      ))}
      {named.map(({ name, what }) => (
        <div key={`${what} ${name}`} className="grid gap-x-4 sm:grid-cols-[8rem_minmax(0,1fr)]">
          <dt className="text-muted">{what}</dt>
          <dd className="wrap-anywhere">
            <Mono>{name}</Mono>
          </dd>
        </div>
      ))}
    </dl>
  )
}
