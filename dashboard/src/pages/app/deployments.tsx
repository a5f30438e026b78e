import { useQuery } from '@tanstack/react-query'
import { Rocket } from 'lucide-react'
import { queries } from '../../api/queries.ts'
import { StatusFilter, useStatusFilter } from '../../ui/filter.tsx'
import { Card } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { FirstDeployButton } from './deploy-dialog.tsx'
import { DeploymentTable } from './deployment-table.tsx'
import { useApp } from './use-app.ts'

export function Deployments() {
  const app = useApp()
  const deployments = useQuery(queries.deployments(app.name))
  const [status, choose] = useStatusFilter('deployments')
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
              <div className="px-3 pt-3 empty:hidden">
                <StatusFilter statuses={all.map(one => one.status)} chosen={status} choose={choose} />
              </div>
              <DeploymentTable
                app={app}
                deployments={all.filter(one => status === '' || one.status === status)}
                newest={all[0]}
              />
            </>
          )
        }
      </Loaded>
    </Card>
  )
}
