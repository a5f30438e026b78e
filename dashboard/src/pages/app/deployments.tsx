import { type Deployment, authorOf, versionOf } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Rocket } from 'lucide-react'
import { queries } from '../../api/queries.ts'
import { type RowFilter, useRowFilter } from '../../ui/filter.tsx'
import { Card } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { FirstDeployButton } from './deploy-dialog.tsx'
import { DeploymentTable } from './deployment-table.tsx'
import { useApp } from './use-app.ts'

const filter: RowFilter<Deployment> = {
  list: 'deployments',
  find: 'Find a deployment',
  text: one => `${versionOf(one)} ${one.image} ${one.git_branch ?? ''} ${one.git_commit_hash ?? ''} ${authorOf(one)}`,
  status: one => one.status,
}

export function Deployments() {
  const app = useApp()
  const deployments = useQuery(queries.deployments(app.name))
  const { bar, shows, nothing } = useRowFilter(filter, deployments.data)
  return (
    <Card flush title="Deployments" lead="Activate an earlier one to roll back.">
      <Loaded query={deployments}>
        {all =>
          all.length === 0 ? (
            <Empty icon={Rocket} title="No deployments yet" action={<FirstDeployButton app={app} />}>
              Deploy an image. Every version that you deploy is listed here for rollbacks.
            </Empty>
          ) : (
            <>
              <div className="flex flex-wrap items-center gap-3 px-3 pt-3 empty:hidden">{bar}</div>
              {all.some(shows) ? (
                <DeploymentTable app={app} deployments={all.filter(shows)} newest={all[0]} />
              ) : (
                <p className="px-4 py-8 text-center text-muted">{nothing}</p>
              )}
            </>
          )
        }
      </Loaded>
    </Card>
  )
}
